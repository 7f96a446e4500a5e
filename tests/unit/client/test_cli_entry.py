"""How the command line begins and ends: help, usage, Ctrl-C at any moment, any terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from enginefarm.cli import gate_arguments
from enginefarm.cli.app import app, invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.cli.gate_arguments import Ifs
from enginefarm.errors import InvalidRequest
from enginefarm.gate import EvaluationMetric, Gate
from enginefarm.spec_errors import valid_spec
from enginefarm.views import ModelSummary
from tests.refused import refused_with
from tests.unit.client.support.server import Handler, LoopbackFarm
from tests.unit.client.support.views import MODEL, model_view

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("line", "told", "fix"),
    [
        (["submt"], "There is no command 'submt'. [usage]", "enginefarm --help"),
        (["submit"], "Missing argument 'MODEL'. [usage]", "enginefarm submit --help"),
        (["list", "--state", "x"], "'--state': 'x' is not one of", "enginefarm list --help"),
        (["logs", "b", "--nope"], "No such option: --nope", "enginefarm logs --help"),
    ],
)
def test_a_usage_error_is_one_sentence_and_names_the_command(
    line: list[str],
    told: str,
    fix: str,
    farm_env: LoopbackFarm,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert invoke(line) == ExitCode.USAGE

    err = capsys.readouterr().err
    assert told in err
    assert f"with: {fix}\n" in err
    assert "?." not in err
    assert ".." not in err
    assert "Value error" not in err


def test_the_list_of_commands_fits_a_terminal_of_80_columns(
    farm_env: LoopbackFarm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert invoke(["-h"]) == ExitCode.OK

    out = capsys.readouterr().out
    assert "..." not in out.split("Commands:")[1]
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("command", [str(each.name) for each in app.registered_commands])
def test_every_command_names_its_values_in_capitals(
    command: str, farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke([command, "-h"]) == ExitCode.OK

    options = capsys.readouterr().out.partition("Options:")[2]
    assert not re.search("<[a-z]", options)


def _python(script: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        env={"PATH": "/usr/bin:/bin", "HOME": "/", **env},
        capture_output=True,
        check=False,
        encoding="utf-8",
    )


def test_ctrl_c_while_the_command_line_is_still_read_in_shows_no_traceback() -> None:
    script = (
        "import sys\n"
        "class Ctrl:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'httpx':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Ctrl())\n"
        "from enginefarm.cli import main\n"
        "main(['list'])\n"
    )

    ended = _python(script)

    assert ended.returncode == ExitCode.INTERRUPTED
    assert ended.stderr == ""


def test_the_entry_point_is_there_before_anything_heavy_is() -> None:
    script = "import sys, enginefarm.cli; print([n for n in sys.modules if n in " + str(
        ["typer", "rich", "httpx", "pydantic"]
    )
    ended = _python(f"{script}])")

    assert ended.stdout.strip() == "[]"


def test_ctrl_c_says_in_one_line_that_it_was_heard(
    farm_env: LoopbackFarm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("enginefarm.client.fleet.Fleet.nodes", interrupt)

    assert invoke(["nodes"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err.strip() == "interrupted"


def _named(name: str) -> Callable[[Handler], None]:
    counts = {"file_count": 1, "input_count": 0, "output_count": 0}
    row = ModelSummary.model_validate(model_view(MODEL, name).model_dump() | counts)
    body = f"[{row.model_dump_json()}]".encode()
    return lambda handler: handler.reply(200, body)


def test_a_terminal_that_lacks_letters_gets_question_marks(farm_env: LoopbackFarm) -> None:
    farm_env.routes["/v1/models"] = _named("modèle → é")
    script = "from enginefarm.cli import main; main([{}])"
    env = {"PYTHONIOENCODING": "ascii", "ENGINEFARM_URL": farm_env.url}

    shown = _python(script.format("'models'"), **env)
    document = _python(script.format("'models', '--json'"), **env)

    assert (shown.returncode, document.returncode) == (0, 0)
    assert "mod?le ? ?" in shown.stdout
    assert json.loads(document.stdout)[0]["name"] == "modèle → é"


PAGES = sorted((ROOT / "docs" / "use").glob("*.md"))


def test_what_the_pages_tell_one_to_type_works() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    source = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "client" / "src").rglob("*.py")
    )

    gates = re.findall(r"--gate '([^']+)'", text + source)
    assert gate_arguments.gates(gates, Ifs())
    # There is no such distribution to be had from an index.
    assert not re.search(r"pip install ['\"]?enginefarm", text + source)


def test_the_script_of_the_page_waits_and_asks_for_one_build_only(tmp_path: Path) -> None:
    """With a farm that is away, then there, then done in part."""
    page = (ROOT / "docs" / "use" / "exit-codes.md").read_text(encoding="utf-8")
    script = page.split("```sh\n")[1].split("```")[0]
    for name, does in {
        "enginefarm": 'echo "$@" >> calls; [ "$(wc -l < calls)" -lt 3 ] && exit 9; exit 5',
        "sleep": 'echo "$1" >> slept',
        "uuidgen": "echo one-key",
        "jq": "echo shown",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)

    ended = subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        check=False,
        encoding="utf-8",
    )

    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert ended.returncode == 5, ended.stderr
    assert ended.stdout == "shown\n"
    assert len(calls) == 3
    assert len(set(calls)) == 1
    assert "--idempotency-key one-key" in calls[0]
    assert (tmp_path / "slept").read_text(encoding="utf-8").split() == ["10", "30"]


def test_a_metric_is_read_as_it_is_shown() -> None:
    for text in ("accuracy[scores]=label", "ctc_error_rate[a:b]=text,padding=99,blank=3"):
        asked = EvaluationMetric.model_validate(gate_arguments.metric(text))
        assert gate_arguments.metric_text(asked) == text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("accuracy", "invalid_argument"),
        ("accuracy[scores]", "invalid_argument"),
        ("accuracy[scores]=label,blank=x", "invalid_argument"),
        ("acuracy[scores]=label", "unknown_metric"),
    ],
)
def test_a_metric_that_cannot_be_read_is_refused(text: str, code: str) -> None:
    assert refused_with(gate_arguments.metric, text) == code


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gpu_compute_ms", "a processor has none, and no gate looks at them"),
        (
            "energy_per_inference_mj",
            "the conditions under which a GPU was measured (latency[].trust)",
        ),
        ("sm_clock", "the conditions under which a GPU was measured (latency[].trust)"),
        ("throughput_qps", "no gate looks at them"),
    ],
)
def test_a_gate_on_what_only_reports_have_says_which_metric_to_write(name: str, why: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        gate_arguments.gates([f"onnxruntime@cpu:{name}<=5"], Ifs())
    assert refused.value.code == "unknown_metric"
    assert why in str(refused.value.why)
    assert "latency_p99_ms" in str(refused.value.fix)
    with pytest.raises(InvalidRequest) as body:
        valid_spec({"model": NAMED, "targets": ["onnxruntime@cpu"], "gates": [{"metric": name}]})
    assert (body.value.why, body.value.fix) == (refused.value.why, refused.value.fix)


NAMED = f"sha256:{'b' * 64}"


@pytest.mark.parametrize(
    "text",
    [
        "tensorrt@sm_89:l4:cosine>=0.9",
        "tensorrt@sm_89:l4+same_compute_capability:cosine[a:b]>=0.9",
        "tensorrt-rtx@sm_86+sm_89:latency_p99_ms<=5",
        f"latency_p99_ms<=+10%@{NAMED}",
        f"tensorrt@sm_89:l4:latency_p99_ms<=+10%@{NAMED}",
        f"cosine[y]>=-0.001@{NAMED}",
        f"onnxruntime@cpu:engine_bytes<=+0@{NAMED}",
        "max_abs_error<=1e-05",
    ],
)
def test_a_gate_is_read_as_it_is_shown(text: str) -> None:
    (gate,) = gate_arguments.gates([text], Ifs())
    assert gate_arguments.gate_text(Gate.model_validate(gate)) == text


@pytest.mark.parametrize(
    "text",
    [
        f"latency_p99_ms>=-10%@{NAMED}",  # more is worse, so it may only be above
        f"cosine<=+0.1@{NAMED}",
        f"latency_p99_ms<=10%@{NAMED}",
        f"latency_p99_ms<=+x%@{NAMED}",
        "latency_p99_ms<=+10%",
    ],
)
def test_a_gate_against_an_artifact_that_means_nothing_is_refused(text: str) -> None:
    assert refused_with(gate_arguments.gates, [text], Ifs()) == "invalid_argument"


def test_a_metric_whose_better_side_the_build_decides_may_be_bounded_on_both() -> None:
    for sign in (">=-", "<=+"):
        (gate,) = gate_arguments.gates([f"metric_value{sign}0.1@{NAMED}"], Ifs())
        assert Gate.model_validate(gate).worse_by == 0.1
