"""How a child ended decides what is said and who is to blame."""

from __future__ import annotations

import pytest

from enginefarm.state import Blame
from workers.sandbox import Ending, Limits, Outcome
from workers.verdict import failure_of, no_result, with_last_words

LIMITS = Limits(running_s=60, silent_s=30, memory_bytes=1 << 30)


def outcome(ending: Ending, signal: str | None = None) -> Outcome:
    """Return an outcome of that kind."""
    return Outcome(ending, -9 if signal else 0, signal, 61.0, 2 << 30)


@pytest.mark.parametrize(
    ("ending", "signal", "code", "blame"),
    [
        (Ending.KILLED, "SIGSEGV", "child_crashed", Blame.NODE),
        (Ending.KILLED, "SIGABRT", "child_crashed", Blame.NODE),
        (Ending.KILLED, "SIGKILL", "child_killed", Blame.NODE),
        (Ending.OUT_OF_MEMORY, "SIGKILL", "out_of_memory", Blame.NODE),
        (Ending.MEMORY_LIMIT, "SIGKILL", "memory_limit", Blame.PERSON),
        (Ending.RUNNING_LIMIT, "SIGTERM", "running_limit", Blame.PERSON),
        (Ending.SILENT_LIMIT, "SIGTERM", "silent_limit", Blame.NODE),
    ],
)
def test_each_death_has_its_own_name(ending: Ending, signal: str, code: str, blame: Blame) -> None:
    failure = failure_of(outcome(ending, signal), LIMITS)
    assert failure is not None
    assert (failure.code, failure.blame) == (code, blame)
    assert failure.message
    assert failure.why
    assert failure.fix


@pytest.mark.parametrize("ending", [Ending.EXITED, Ending.STOPPED])
def test_an_orderly_end_is_no_failure(ending: Ending) -> None:
    assert failure_of(outcome(ending), LIMITS) is None


def test_every_ending_is_decided() -> None:
    orderly = {Ending.EXITED, Ending.STOPPED}
    for ending in set(Ending) - orderly:
        assert failure_of(outcome(ending, "SIGKILL"), LIMITS) is not None


def test_the_numbers_are_in_the_words() -> None:
    failure = failure_of(outcome(Ending.MEMORY_LIMIT, "SIGKILL"), LIMITS)
    assert failure is not None
    assert "2.00 GiB of 1.00 GiB" in failure.message


def test_a_child_that_says_nothing_is_the_nodes_fault() -> None:
    failure = no_result(Outcome(Ending.EXITED, 3, None, 1.0, 0))
    assert failure.blame is Blame.NODE
    assert "status 3" in failure.message


def test_a_crash_is_told_with_the_last_words_of_the_runtime() -> None:
    failure = no_result(Outcome(Ending.EXITED, 139, None, 1.0, 0))
    log = (
        "[INFO] Optimizing graph\n[ERROR] Assertion failed: op->input_size()\n"
        'Fatal Python error: Segmentation fault\n  File "x.py", line 3 in build\n\n'
    )
    told = with_last_words(failure, log)
    assert told.context["said"] == "[ERROR] Assertion failed: op->input_size()"
    assert with_last_words(failure, "\n") == failure
