"""The command line: what it sends, what it prints, and the exit codes it promises."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from enginefarm import errors
from enginefarm.cli import exit_codes
from enginefarm.cli.app import app, invoke
from enginefarm.cli.exit_codes import MEANING, ExitCode, exit_code_of, exit_code_of_build
from enginefarm.cli.settings import read_settings
from enginefarm.errors import FarmError, InvalidRequest, NotFound
from enginefarm.state import BuildState, JobState, Stage
from enginefarm.views import BuildView
from tests.unit.client.support.release import Release, SigningKey
from tests.unit.client.support.server import Handler, LoopbackFarm
from tests.unit.client.support.views import (
    ARTIFACT,
    GPU,
    MODEL,
    artifact,
    build,
    event,
    failed,
    job,
    published,
)

ROOT = Path(__file__).parents[3]


FAMILIES = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, FarmError) and not each.__name__.startswith("_")
]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_errors_has_an_exit_code(family: type[FarmError]) -> None:
    error = family.__new__(family)
    error.code = "anything"

    assert exit_code_of(error) is not ExitCode.OK
    assert family in exit_codes.BY_FAMILY


def test_a_family_of_somebody_elses_has_the_exit_code_of_its_nearest() -> None:
    class Stranger(NotFound):
        """A family that this distribution does not know."""

    assert exit_code_of(Stranger("Gone.")) is ExitCode.NOT_FOUND


def test_every_end_of_a_build_has_an_exit_code() -> None:
    ends = {state: exit_code_of_build(state) for state in BuildState if state.terminal}

    assert ends == {
        BuildState.SUCCEEDED: 0,
        BuildState.PARTIAL: 5,
        BuildState.FAILED: 4,
        BuildState.CANCELLED: 10,
    }


def test_the_page_of_exit_codes_says_what_the_code_says() -> None:
    page = (ROOT / "docs" / "use" / "exit-codes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `([A-Z_]+)` \| (.+) \|$", page, re.MULTILINE)

    assert rows == [(str(int(code)), code.name, MEANING[code]) for code in ExitCode]


def test_the_page_of_commands_names_every_command_and_option(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "use" / "cli.md").read_text(encoding="utf-8")

    for command in app.registered_commands:
        assert f"## {command.name}" in page
    for command in app.registered_commands:
        assert invoke([str(command.name), "--help"]) == ExitCode.OK
        help_text = capsys.readouterr().out
        for option in re.findall(r"(--[a-z][a-z-]+)", help_text):
            if option not in {"--help", "--json"} and not option.startswith("--no-"):
                assert f"`{option}" in page, f"{command.name} {option}"


Call = dict[str, Any]


def _submitting(farm: LoopbackFarm) -> list[Call]:
    """Let the farm take builds; return the bodies that come."""
    bodies: list[Call] = []

    def answer(handler: Handler) -> None:
        bodies.append(json.loads(handler.body()))
        view = build(BuildState.PENDING, [], [published()])
        handler.reply(201, view.model_dump_json().encode())

    farm.routes["/v1/builds"] = answer
    return bodies


def test_the_everyday_line_asks_for_exactly_what_was_written(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    bodies = _submitting(farm_env)
    line = [
        *("submit", MODEL, "-t", "tensorrt-rtx@sm_89", "-t", "onnxruntime@cpu"),
        *("--profile", "x=1x3x160x160:1x3x320x480:4x3x960x960,m=1:1:4", "--profile", "sr=1"),
        *("--profile", "x=8x3x32x32"),
        *("--gate", "cosine>=0.999", "--gate", "onnxruntime@cpu:latency_p99_ms <= 5"),
        *("--gate", "snr_db[logits]>=30", "--if-unmeasured", "wait"),
        *("--label", "team=vision", "--option", "compile.optimization_level=3"),
        *("--option", "compile.graph_optimization=basic", "--synthetic", "ids=0:30521"),
        *("--synthetic", "sr=16000", "--priority", "0", "--wait-for-node", "10m", "--seed", "7"),
        *("--idempotency-key", "mine"),
    ]

    assert invoke(line) == ExitCode.OK

    assert capsys.readouterr().out == "bld_1\n"
    body = bodies[0]
    assert body["targets"] == ["tensorrt-rtx@sm_89", "onnxruntime@cpu"]
    assert [sorted(profile) for profile in body["profiles"]] == [["m", "sr", "x"], ["x"]]
    assert body["profiles"][0]["x"]["opt"] == [1, 3, 320, 480]
    assert list(body["profiles"][1]["x"].values()) == [[8, 3, 32, 32]] * 3
    assert [(g["metric"], g["at_least"], g["at_most"]) for g in body["gates"]] == [
        ("cosine", 0.999, None),
        ("latency_p99_ms", None, 5.0),
        ("snr_db", 30.0, None),
    ]
    assert body["gates"][1]["target"] == "onnxruntime@cpu"
    assert body["gates"][2]["output"] == "logits"
    assert {gate["if_unmeasured"] for gate in body["gates"]} == {"wait"}
    assert body["labels"] == {"team": "vision"}
    assert body["options"]["compile"]["optimization_level"] == 3
    assert body["options"]["compile"]["graph_optimization"] == "basic"
    assert body["synthetic"]["ids"] == {"value": None, "low": 0.0, "high": 30521.0}
    assert body["synthetic"]["sr"]["value"] == 16000
    assert (body["priority"], body["wait_for_node"], body["seed"]) == (0, 600, 7)
    assert farm_env.seen[-1].headers["Idempotency-Key"] == "mine"


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        (["-t", "tensort@sm_89"], "'tensorrt'"),
        (["--profile", "x"], "1x3x160x160"),
        (["--profile", "x=axb"], "MIN:OPT:MAX"),
        (["--gate", "cosine=0.9"], "cosine>=0.999"),
        (["--gate", "cosin>=0.9"], "'cosine'"),
        (["--gate", "cosine>=much"], "cosine>=0.999"),
        (["--label", "vision"], "team=vision"),
        (["--label", "a=1", "--label", "a=2"], "twice"),
        (["--option", "compile.optimisation_level=3"], "'optimization_level'"),
        (["--option", "compil.optimization_level=3"], "'compile'"),
        (["--option", "compile.optimization_level=9"], "optimization_level"),
        (["--synthetic", "x=low:high"], "ids=0:30521"),
        (["--synthetic", "x=5:1"], "low <= high"),
        (["--wait-for-node", "soon"], "10m"),
    ],
)
def test_what_is_misspelt_is_told_before_anything_is_sent(
    extra: list[str],
    sentence: str,
    farm_env: LoopbackFarm,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = invoke(["submit", "nothing.onnx", "-t", "onnxruntime@cpu", *extra])

    out, err = capsys.readouterr()
    assert code == ExitCode.BAD_INPUT
    assert sentence in err
    assert "Traceback" not in err
    assert out == ""
    assert farm_env.seen == []


@pytest.mark.parametrize(
    "line", [["submit"], ["nonsense"], ["watch"], ["submit", "m", "--priority", "x"], ["--nope"]]
)
def test_a_wrong_command_line_is_a_usage_error(
    line: list[str], farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(line) == ExitCode.USAGE
    assert "--help" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (401, "unauthenticated", ExitCode.NOT_ALLOWED),
        (403, "forbidden", ExitCode.NOT_ALLOWED),
        (404, "not-found", ExitCode.NOT_FOUND),
        (409, "conflict", ExitCode.CONFLICT),
        (422, "invalid-profile", ExitCode.BAD_INPUT),
        (422, "not-served", ExitCode.NOT_SERVED),
        (503, "unavailable", ExitCode.FARM_UNAVAILABLE),
        (500, "farm-error", ExitCode.UNEXPECTED),
    ],
)
def test_a_refusal_of_the_farm_is_three_sentences_and_an_exit_code(
    status: int,
    kind: str,
    code: ExitCode,
    farm_env: LoopbackFarm,
    capsys: pytest.CaptureFixture[str],
) -> None:
    farm_env.routes["/v1/builds"] = lambda handler: handler.problem(status, kind, "some_code")

    assert invoke(["list"]) == code

    err = capsys.readouterr().err
    assert "error: What happened. [some_code]" in err
    assert "why: Why it did." in err
    assert "fix: What to do." in err


def test_without_a_farm_one_is_told_how_to_get_one(
    farm_env: LoopbackFarm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ENGINEFARM_URL")

    assert invoke(["list"]) == ExitCode.BAD_INPUT
    assert "make farm" in capsys.readouterr().err


def test_a_mistake_of_ours_is_told_without_a_traceback(
    farm_env: LoopbackFarm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def mistake(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("enginefarm.cli.builds.connect", mistake)

    assert invoke(["list"]) == ExitCode.UNEXPECTED
    err = capsys.readouterr().err
    assert "a bug" in err
    assert "Traceback" not in err


def test_ctrl_c_has_its_own_exit_code(
    farm_env: LoopbackFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("enginefarm.cli.builds.connect", interrupt)

    assert invoke(["list"]) == ExitCode.INTERRUPTED


def test_text_from_the_farm_cannot_steer_the_terminal(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    farm_env.routes["/v1/builds"] = lambda handler: handler.problem(
        404, "not-found", "x", detail="\x1b[2J\x1b]0;evil\x07[red]gone[/red]"
    )

    invoke(["list"])

    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert "[red]gone[/red]" in err


def _serve_build(farm: LoopbackFarm, view: BuildView) -> None:
    def stream(handler: Handler) -> None:
        told = [event(1, "snapshot", {"state": "running"}), event(2, "progress", {"fraction": 0.5})]
        told.append(event(3, "build", {"state": view.state}))
        body = "".join(f"id: {each.id}\ndata: {each.model_dump_json()}\n\n" for each in told)
        handler.reply(200, body.encode(), {"Content-Type": "text/event-stream"})

    def shown(handler: Handler) -> None:
        handler.reply(200, view.model_dump_json().encode())

    def summary(handler: Handler) -> None:
        handler.reply(200, artifact().model_dump_json().encode())

    farm.routes["/v1/builds/bld_1/events"] = stream
    farm.routes["/v1/builds/bld_1"] = shown
    farm.routes[f"/v1/artifacts/{ARTIFACT}/summary"] = summary


PARTIAL = build(
    BuildState.PARTIAL,
    [
        job(Stage.COMPILE, JobState.SUCCEEDED, cached_from="job_0"),
        job(Stage.COMPILE, JobState.FAILED, GPU, failure=failed().failure),
    ],
    [published(), failed()],
)


def test_watch_ends_with_the_table_and_the_builds_exit_code(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve_build(farm_env, PARTIAL)

    assert invoke(["watch", "bld_1"]) == ExitCode.BUILD_PARTIAL

    out, err = capsys.readouterr()
    assert "succeeded (cached)" in err
    assert "failed: cosine is 0.91." in err
    row = next(line for line in out.splitlines() if "onnxruntime@cpu" in line)
    for cell in ("published", "2.5 MB", "1.5 s", "0.999987", "1.2e-05", "2.25 ms", "2.75 ms"):
        assert cell in row
    assert "gate not met: cosine>=0.9999999 (it is 0.999987)" in out
    assert f"enginefarm pull {ARTIFACT}" in out
    assert "cosine is 0.91. [gate_not_met]" in out
    assert "fix: Lower the gate" in out


def test_watch_with_json_prints_one_event_a_line_and_the_build_as_the_last(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve_build(farm_env, PARTIAL)

    assert invoke(["watch", "bld_1", "--json"]) == ExitCode.BUILD_PARTIAL

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["kind"] for line in lines] == ["snapshot", "progress", "build", "result"]
    assert lines[-1]["data"]["state"] == "partial"


def test_who_stops_watching_is_told_that_the_build_goes_on(
    farm_env: LoopbackFarm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("enginefarm.cli.watch.follow", interrupt)

    assert invoke(["watch", "bld_1"]) == ExitCode.INTERRUPTED
    assert "enginefarm watch bld_1" in capsys.readouterr().err


def test_a_key_that_may_not_see_artifacts_still_sees_how_the_build_ended(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve_build(farm_env, PARTIAL)
    farm_env.routes[f"/v1/artifacts/{ARTIFACT}/summary"] = lambda handler: handler.problem(
        403, "forbidden", "scope_missing"
    )

    assert invoke(["watch", "bld_1"]) == ExitCode.BUILD_PARTIAL
    assert "need a key with the scope" in capsys.readouterr().out


READS = {
    "list": ("/v1/builds", b'{"items":[],"next_cursor":null}', {"items": [], "next_cursor": None}),
    "nodes": ("/v1/nodes", b"[]", []),
    "targets": ("/v1/targets", b"[]", []),
    "models": ("/v1/models", b"[]", []),
    "trust": ("/v1/trust", b'{"keys":[]}', {"keys": []}),
}


@pytest.mark.parametrize("command", READS)
def test_json_is_exactly_one_document(
    command: str, farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    path, body, expected = READS[command]
    farm_env.routes[path] = lambda handler: handler.reply(200, body)

    assert invoke([command, "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == expected


@pytest.mark.parametrize("command", READS)
def test_every_list_can_be_read_by_a_person(command: str, farm_env: LoopbackFarm) -> None:
    path, body, _ = READS[command]
    farm_env.routes[path] = lambda handler: handler.reply(200, body)

    assert invoke([command]) == ExitCode.OK


def test_show_tells_jobs_and_targets(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve_build(farm_env, PARTIAL)

    assert invoke(["show", "bld_1"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "job_sm_89compile" in out
    assert "gate_not_met" in out


def test_a_trust_file_with_other_keys_is_replaced_only_when_told(
    farm_env: LoopbackFarm, tmp_path: Path, trust_file: Path, key: SigningKey
) -> None:
    new = SigningKey.new()
    body = json.dumps({"keys": [new.trusted.model_dump(mode="json")]}).encode()
    farm_env.routes["/v1/trust"] = lambda handler: handler.reply(200, body)
    before = trust_file.read_bytes()

    assert invoke(["trust", "--save", str(trust_file)]) == ExitCode.CONFLICT
    assert trust_file.read_bytes() == before
    refused = ["trust", "--save", str(trust_file), "--replace", "--expect", key.trusted.keyid]
    assert invoke(refused) == ExitCode.VERIFICATION_REFUSED
    assert trust_file.read_bytes() == before
    saved = ["trust", "--save", str(trust_file), "--replace", "--expect", new.trusted.keyid]
    assert invoke(saved) == ExitCode.OK
    assert json.loads(trust_file.read_bytes()) == json.loads(body)


# Running


def _engine() -> bytes:
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


@pytest.fixture
def engine(farm_env: LoopbackFarm, key: SigningKey, trust_file: Path, tmp_path: Path) -> Path:
    release = Release.of(key, {"model.onnx": _engine()})
    folder = tmp_path / "engine"
    line = ["pull", farm_env.serve(release), str(folder), "--trust", str(trust_file)]
    assert invoke(line) == ExitCode.OK
    return folder


def test_a_pulled_engine_is_run_at_the_shape_it_was_made_for(
    engine: Path, trust_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()

    assert invoke(["run", str(engine), "--trust", str(trust_file), "--json"]) == ExitCode.OK

    told = json.loads(capsys.readouterr().out)
    assert told["inputs"] == {"x": {"dtype": str(np.dtype("float32")), "shape": [2, 3]}}
    assert told["outputs"]["y"]["shape"] == [2, 3]


def test_a_shape_may_be_named(
    engine: Path, trust_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["run", str(engine), "--trust", str(trust_file), "--shape", "x=4x3"]

    assert invoke(line) == ExitCode.OK
    assert "out y float32 [4, 3]" in capsys.readouterr().out
    assert invoke([*line, "--shape", "z=1"]) == ExitCode.BAD_INPUT


def test_an_engine_that_was_changed_is_not_loaded(
    engine: Path, trust_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = (engine / "model.onnx").read_bytes() + b"\n"
    (engine / "model.onnx").unlink()
    (engine / "model.onnx").write_bytes(changed)

    assert invoke(["run", str(engine), "--trust", str(trust_file)]) == ExitCode.VERIFICATION_REFUSED


def test_without_the_extra_run_says_how_to_get_it(
    engine: Path,
    trust_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    assert invoke(["run", str(engine), "--trust", str(trust_file)]) == ExitCode.THIS_MACHINE
    assert "enginefarm[run]" in capsys.readouterr().err


def test_the_other_commands_need_only_what_the_client_declares() -> None:
    """In a process of its own, since this one has them."""
    script = (
        "import sys\n"
        "for name in ('numpy', 'onnxruntime', 'onnx', 'google', 'sqlalchemy', 'celery', 'fastapi',"
        " 'starlette', 'boto3', 'redis', 'structlog', 'pydantic_settings', 'securesystemslib',"
        " 'storage', 'tasks', 'api', 'workers'): sys.modules[name] = None\n"
        "from enginefarm.cli.app import invoke\n"
        "sys.exit(invoke(['--help']))\n"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


# Settings


def _settings_file(folder: Path, text: str) -> Path:
    (folder / ".farm").mkdir(parents=True)
    path = folder / ".farm" / "client.toml"
    path.write_text(text, encoding="utf-8")
    return path


LOCAL = 'url = "http://127.0.0.1:1"\nkey = "ef_local"\ntrust = "trust.json"\n'


def test_the_nearest_file_upwards_is_read_and_its_trust_stands_beside_it(tmp_path: Path) -> None:
    _settings_file(tmp_path, LOCAL)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    settings = read_settings(environment={"HOME": str(tmp_path)}, folder=below)

    assert settings.url == "http://127.0.0.1:1"
    assert settings.key == "ef_local"
    assert settings.trust == tmp_path / ".farm" / "trust.json"
    assert "ef_local" not in repr(settings)


def test_a_key_from_a_file_goes_to_no_other_address(tmp_path: Path) -> None:
    _settings_file(tmp_path, LOCAL)
    env = {"HOME": str(tmp_path), "ENGINEFARM_URL": "https://elsewhere"}

    assert read_settings(environment=env, folder=tmp_path).key is None
    assert read_settings("http://127.0.0.1:1/", environment=env, folder=tmp_path).key == "ef_local"


def test_the_environment_comes_before_the_file(tmp_path: Path) -> None:
    _settings_file(tmp_path, LOCAL)
    env = {"HOME": str(tmp_path), "ENGINEFARM_KEY": "ef_env", "ENGINEFARM_TRUST": "/t.json"}

    settings = read_settings(environment=env, folder=tmp_path)

    assert (settings.key, settings.trust) == ("ef_env", Path("/t.json"))


def test_a_file_of_another_user_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _settings_file(tmp_path, LOCAL)
    monkeypatch.setattr("os.geteuid", lambda: path.stat().st_uid + 1)

    assert read_settings(environment={"HOME": str(tmp_path)}, folder=tmp_path).url is None


@pytest.mark.parametrize(
    ("text", "sentence"), [("urll = 'x'", "'url'"), ("url = 5", "quotes"), ("url = ", "TOML")]
)
def test_a_settings_file_that_cannot_be_right_is_refused(
    text: str, sentence: str, tmp_path: Path
) -> None:
    _settings_file(tmp_path, text)

    with pytest.raises(InvalidRequest) as caught:
        read_settings(environment={"HOME": str(tmp_path)}, folder=tmp_path)
    assert sentence in str(caught.value)
