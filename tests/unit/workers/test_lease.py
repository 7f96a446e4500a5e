"""A lease: what a beat carries, and which answers end the work."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from enginefarm import errors
from enginefarm.state import Stage
from enginefarm.target import Target
from tasks.messages import Assignment, JobLimits, LeaseBeat, LeaseBeatReply
from workers.joblog import JobLog
from workers.lease import CANCELLED, EXPIRED, LOST, Lease

ASSIGNMENT = Assignment(
    job_id="job_1",
    attempt=2,
    build_id="bld_1",
    stage=Stage.COMPILE,
    target=Target.parse("onnxruntime@cpu"),
    lease_token="secret",
    lease_s=60,
    heartbeat_s=0.01,
    limits=JobLimits(running_s=10, silent_s=10),
    recipe={},
    inputs=[],
)
AWAY = errors.Unavailable("The farm does not answer.", code="farm_away")


class Farm:
    """Answers beats with what it was given, in turn; the last one for ever."""

    def __init__(self, *answers: LeaseBeatReply | errors.FarmError) -> None:
        self.answers = list(answers)
        self.heard: list[LeaseBeat] = []

    def lease_beat(self, job_id: str, message: LeaseBeat) -> LeaseBeatReply:
        """Take a beat."""
        assert job_id == "job_1"
        self.heard.append(message)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, errors.FarmError):
            raise answer
        return answer


class Clock:
    """A clock that the test turns."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


FINE = LeaseBeatReply(cancel=False, lease_s=60)


def lease(farm: Farm, log: JobLog | None = None, clock: Clock | None = None) -> Lease:
    """Return a lease whose beats the test makes itself."""
    made = log or JobLog(1000)
    return Lease(farm, ASSIGNMENT, made, clock or Clock())  # type: ignore[arg-type]  # only beats are used


def test_a_beat_carries_progress_and_the_news_of_the_log_once() -> None:
    farm, log = Farm(FINE), JobLog(1000)
    held = lease(farm, log)
    log.write(b"hello\n")
    held.progress({"fraction": 0.5, "phase": "building", "detail": "x"})
    held.beat()
    held.beat()
    first, second = farm.heard
    assert (first.attempt, first.lease_token) == (2, "secret")
    assert first.progress is not None
    assert (first.progress.fraction, first.progress.phase) == (0.5, "building")
    assert (first.log_tail, second.log_tail) == ("hello\n", "")


def test_news_of_a_beat_that_was_missed_come_with_the_next() -> None:
    farm, log = Farm(AWAY, FINE), JobLog(1000)
    held = lease(farm, log)
    log.write(b"hello\n")
    held.beat()
    held.beat()
    assert farm.heard[1].log_tail == "hello\n"


def test_progress_that_makes_no_sense_is_no_fraction() -> None:
    assert lease(Farm(FINE)).progress({"fraction": "much", "phase": 3}).fraction is None


def test_a_cancel_stops_the_work_but_not_the_speaking() -> None:
    held = lease(Farm(LeaseBeatReply(cancel=True, lease_s=60)))
    held.beat()
    assert held.stop_reason == CANCELLED
    assert held.held


@pytest.mark.parametrize(
    "error", [errors.LeaseLost("No."), errors.Unauthenticated("No."), errors.NotFound("No.")]
)
def test_a_refused_beat_loses_the_lease(error: errors.FarmError) -> None:
    held = lease(Farm(error))
    held.beat()
    assert held.stop_reason == LOST
    assert not held.held


def test_a_farm_that_is_away_ends_the_work_only_when_the_lease_is_over() -> None:
    clock = Clock()
    held = lease(Farm(AWAY), clock=clock)
    reasons = []
    for seconds in (59, 1):
        clock.now += seconds
        held.beat()
        reasons.append(held.stop_reason)
    assert reasons == [None, EXPIRED]
    assert not held.held


def test_the_end_of_work_may_be_told_for_another_lease() -> None:
    clock = Clock()
    held = lease(Farm(AWAY), clock=clock)
    clock.now += 59
    assert (held.seconds_left, held.report_s) == (1, 61)


def test_a_lease_ends_by_the_clock_while_a_beat_waits_for_its_answer() -> None:
    clock = Clock()
    held = lease(Farm(FINE), clock=clock)
    clock.now += 60
    assert held.stop_reason == EXPIRED
    held.beat()
    assert not held.held


def test_a_beat_that_gets_through_prolongs_the_lease() -> None:
    clock = Clock()
    held = lease(Farm(FINE, AWAY), clock=clock)
    clock.now += 50
    held.beat()
    clock.now += 50
    held.beat()
    assert held.stop_reason is None


def test_a_lost_lease_outranks_a_cancel() -> None:
    held = lease(Farm(LeaseBeatReply(cancel=True, lease_s=60), errors.LeaseLost("No.")))
    held.beat()
    held.beat()
    assert held.stop_reason == LOST


def test_the_thread_beats_until_the_context_ends(
    wait_until: Callable[[Callable[[], bool]], None],
) -> None:
    farm = Farm(FINE)
    before = set(threading.enumerate())
    with lease(farm):
        wait_until(lambda: len(farm.heard) >= 3)
    assert set(threading.enumerate()) <= before
