"""``logs`` prints each letter once, while an attempt runs too, and lets none steer the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from enginefarm.cli import logs as module
from enginefarm.cli.app import invoke
from enginefarm.cli.exit_codes import ExitCode
from enginefarm.state import BuildState, JobState, Stage
from enginefarm.views import AttemptView, BuildView, JobView
from tests.unit.client.support.server import Handler, LoopbackFarm
from tests.unit.client.support.views import AT, build, job, published

EVIL = "\x1b]0;owned\x07ok \x1b[31mred\x1b[0m\x1b[2J\r\n\ttab \x9b5n\x08\x7f \u202eend\n"
Part = tuple[str, str]


def _job(state: JobState, attempts: int = 1, stage: Stage = Stage.COMPILE) -> JobView:
    tried = [
        AttemptView(
            number=number,
            node="node-1",
            state=state,
            started_at=AT,
            finished_at=AT if state.terminal or number < attempts else None,
            failure=None,
            log=None,
        )
        for number in range(1, attempts + 1)
    ]
    return job(stage, state, attempts=tried)


def _build(state: BuildState, *jobs: JobView) -> BuildView:
    return build(state, list(jobs), [published()])


RUNNING = _build(BuildState.RUNNING, _job(JobState.RUNNING))
ENDED = _build(BuildState.SUCCEEDED, _job(JobState.SUCCEEDED))
PATH = f"/v1/jobs/{ENDED.jobs[0].id}/attempts/1/log"


def _serve(farm: LoopbackFarm, builds: list[BuildView], parts: list[Part]) -> None:
    """Let the farm show these builds and logs, one after another, the last for ever."""
    farm.routes["/v1/builds/bld_1"] = _one_by_one([_shown(each) for each in builds])
    farm.routes[PATH] = _one_by_one([_log(*each) for each in parts])


def _shown(view: BuildView) -> Callable[[Handler], None]:
    return lambda handler: handler.reply(200, view.model_dump_json().encode())


def _log(kind: str, text: str) -> Callable[[Handler], None]:
    headers = {"X-Log-Part": kind, "Content-Type": "text/plain; charset=utf-8"}
    return lambda handler: handler.reply(200, text.encode(), headers)


def _one_by_one(answers: list[Callable[[Handler], None]]) -> Callable[[Handler], None]:
    def each() -> Iterator[Callable[[Handler], None]]:
        yield from answers
        while True:
            yield answers[-1]

    rest = each()

    def answer(handler: Handler) -> None:
        next(rest)(handler)

    return answer


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.0)


def test_a_log_cannot_steer_the_terminal(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve(farm_env, [ENDED], [("whole", EVIL)])

    assert invoke(["logs", "bld_1"]) == ExitCode.OK

    out = capsys.readouterr().out
    assert out.startswith("ok red\n\ttab ")
    assert all(char.isprintable() or char in "\n\t" for char in out)


def test_with_json_a_log_is_as_it_came_and_escaped(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve(farm_env, [ENDED], [("whole", EVIL)])

    assert invoke(["logs", "bld_1", "--json"]) == ExitCode.OK

    out = capsys.readouterr().out
    assert json.loads(out)[0]["log"] == EVIL
    assert json.loads(out)[0]["whole"] is True
    assert all(char.isprintable() or char == "\n" for char in out)


def test_following_prints_each_letter_once_and_ends_with_the_attempt(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [("tail", ""), ("tail", "one\ntw"), ("tail", "one\ntwo\n"), ("whole", "one\ntwo\nend")]
    _serve(farm_env, [RUNNING, RUNNING, RUNNING, ENDED], parts)

    assert invoke(["logs", "bld_1", "--job", ENDED.jobs[0].id, "-f"]) == ExitCode.OK

    assert capsys.readouterr().out == "one\ntwo\nend\n"


def test_following_a_build_waits_for_its_first_attempt(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting = _build(BuildState.PENDING, job(Stage.COMPILE, JobState.QUEUED))
    _serve(farm_env, [waiting, RUNNING, ENDED], [("tail", "a\n"), ("whole", "a\nb\n")])

    assert invoke(["logs", "bld_1", "--follow"]) == ExitCode.OK

    title = f"== onnxruntime@cpu compile {ENDED.jobs[0].id} attempt 1\n"
    assert capsys.readouterr().out == f"{title}a\nb\n"


def test_a_tail_that_lost_its_beginning_goes_on_where_it_was(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"line {number}\n" for number in range(900)]
    first, then = "".join(lines[:600]), "".join(lines[300:700])
    parts = [("tail", first), ("tail", then), ("whole", "".join(lines))]
    _serve(farm_env, [RUNNING, RUNNING, ENDED], parts)

    assert invoke(["logs", "bld_1", "--job", ENDED.jobs[0].id, "-f"]) == ExitCode.OK

    assert capsys.readouterr().out == "".join(lines)


def test_what_came_too_fast_to_be_kept_is_said_to_be_missing(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve(farm_env, [RUNNING, ENDED], [("tail", "first " * 99), ("tail", "other " * 99)])

    assert invoke(["logs", "bld_1", "--job", ENDED.jobs[0].id, "-f"]) == ExitCode.OK

    assert "some of the log is missing here" in capsys.readouterr().out


def test_a_log_that_was_capped_says_so(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "head\nenginefarm: 12345 bytes of the log were cut here\ntail\n"
    _serve(farm_env, [ENDED], [("whole", text)])

    assert invoke(["logs", "bld_1"]) == ExitCode.OK

    out, err = capsys.readouterr()
    assert out == text
    assert "12345 bytes" in err


def test_the_end_of_a_long_log_of_a_running_attempt_is_said_to_be_that(
    farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve(farm_env, [RUNNING], [("tail", "x" * 65_536)])

    assert invoke(["logs", "bld_1"]) == ExitCode.OK
    assert "only the end of its log" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("view", "sentence"),
    [
        (_build(BuildState.FAILED, job(Stage.COMPILE, JobState.CANCELLED)), "no attempt ever ran"),
        (_build(BuildState.PENDING, job(Stage.COMPILE, JobState.QUEUED)), "--follow"),
        (
            _build(
                BuildState.SUCCEEDED, job(Stage.COMPILE, JobState.SUCCEEDED, cached_from="job_0")
            ),
            "came from the cache",
        ),
    ],
)
def test_a_build_that_never_ran_says_why_there_is_nothing(
    view: BuildView,
    sentence: str,
    farm_env: LoopbackFarm,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _serve(farm_env, [view], [("whole", "")])

    assert invoke(["logs", "bld_1"]) == ExitCode.OK

    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err


@pytest.mark.parametrize("more", [[], ["--follow"], ["--json"]])
def test_attempts_that_printed_nothing_are_said_to_have(
    more: list[str], farm_env: LoopbackFarm, capsys: pytest.CaptureFixture[str]
) -> None:
    _serve(farm_env, [ENDED], [("whole", "")])

    assert invoke(["logs", "bld_1", *more]) == ExitCode.OK

    assert "nothing was logged" in capsys.readouterr().err


@pytest.mark.parametrize("line", [["--job", "job_other"], ["--attempt", "9"]])
def test_an_attempt_that_there_is_not_is_not_found(line: list[str], farm_env: LoopbackFarm) -> None:
    _serve(farm_env, [ENDED], [("whole", "")])

    assert invoke(["logs", "bld_1", *line]) == ExitCode.NOT_FOUND


def test_one_document_and_a_log_that_goes_on_exclude_each_other(farm_env: LoopbackFarm) -> None:
    assert invoke(["logs", "bld_1", "--follow", "--json"]) == ExitCode.USAGE
