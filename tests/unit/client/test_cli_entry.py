"""How the command line begins and ends: help, usage, Ctrl-C at any moment, any terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from enginefarm.cli.app import app, invoke
from enginefarm.cli.exit_codes import ExitCode
from tests.unit.client.support.server import Handler, LoopbackFarm
from tests.unit.client.support.views import MODEL, model_view


@pytest.mark.parametrize(
    ("line", "told", "fix"),
    [
        (["submt"], "Did you mean 'submit'? [usage]", "enginefarm --help"),
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
    body = f"[{model_view(MODEL, name).model_dump_json()}]".encode()
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
