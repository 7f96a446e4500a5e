"""However a command ends, its exit code and its three sentences are those that are promised."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from enginefarm import errors
from enginefarm.cli import exit_codes
from enginefarm.cli.app import app, invoke
from enginefarm.cli.exit_codes import MEANING, ExitCode, exit_code_of, exit_code_of_build
from enginefarm.errors import FarmError, NotFound
from enginefarm.state import BuildState
from tests.unit.client.support.server import LoopbackFarm

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


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (404, b"<html>not here</html>", {}),
        (403, b"<html>a proxy</html>", {}),
        (500, b"<html>oops</html>", {}),
        (200, b"<html>welcome</html>", {}),
        (302, b"", {"Location": "/login"}),
    ],
)
def test_somebody_else_than_the_farm_is_a_farm_that_is_not_there(
    status: int,
    body: bytes,
    headers: dict[str, str],
    farm_env: LoopbackFarm,
    capsys: pytest.CaptureFixture[str],
) -> None:
    farm_env.routes["/v1/builds"] = lambda handler: handler.reply(status, body, headers)

    assert invoke(["list"]) == ExitCode.FARM_UNAVAILABLE
    assert "address" in capsys.readouterr().err


def test_without_a_farm_one_is_told_how_to_get_one(
    farm_env: LoopbackFarm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ENGINEFARM_URL")

    assert invoke(["list"]) == ExitCode.NOT_SET_UP
    err = capsys.readouterr().err
    assert "No farm is known here. [farm_address_missing]" in err
    for words in ("operator", "ENGINEFARM_URL", "ENGINEFARM_KEY", "make farm"):
        assert words in err
    assert farm_env.seen == []


def test_a_farm_that_does_not_answer_is_told_from_none_that_is_known(
    farm_env: LoopbackFarm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENGINEFARM_URL", "http://127.0.0.1:9")

    assert invoke(["list"]) == ExitCode.FARM_UNAVAILABLE
    assert "http://127.0.0.1:9" in capsys.readouterr().err


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


@pytest.mark.parametrize("url", ["foo", "ftp://farm", "http://"])
def test_an_address_that_is_none_is_a_wrong_command_line_and_says_why(
    url: str, farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["--url", url, "list"]) == ExitCode.USAGE
    err = capsys.readouterr().err
    assert "invalid_url" in err
    assert "http:// or https://" in err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["cach"], ["There is no command 'cach'", "Did you mean 'cache'?"]),
        (["cache", "prun"], ["There is no command 'prun'", "Did you mean 'prune'?"]),
        (
            ["check", "m.onnx", "-t", "onnxruntime@cpu,onnxruntime@cpu"],
            ["twice", "onnxruntime@cpu"],
        ),
        (["cache", "prune", "--older-than", "30"], ["30 could be seconds or days", "30d"]),
        (
            ["submit", "m.onnx", "-t", "onnxruntime@cpu", "--synthetic", "a=0:1,b=2"],
            ["One text is for one input", "--synthetic again"],
        ),
        (["run", "folder", "--seed", "-1"], ["--seed", "0"]),
    ],
)
def test_a_wrong_command_line_says_what_to_write(
    line: list[str], words: list[str], farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(line) == ExitCode.USAGE
    err = " ".join(capsys.readouterr().err.split())
    for word in words:
        assert word in err
    assert farm_env.seen == []


def test_an_option_out_of_its_range_is_told_the_range(
    farm_env: LoopbackFarm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["check", "m.onnx", "-t", "onnxruntime@cpu", "--option"]
    assert invoke([*line, "compile.optimization_level=99"]) == ExitCode.BAD_INPUT
    assert "Give a number of at most 5." in capsys.readouterr().err
