"""When a device is out, why, and when it is back."""

from __future__ import annotations

import pytest

from workers.gpu.exclusive import CONTEXT_BYTES
from workers.gpu.health import LOOKS, QUIET_AFTER_PROGRAM_S, QUIET_S, Health
from workers.gpu.port import Errors, Process


def test_a_device_is_well_until_something_speaks_against_it() -> None:
    assert Health().fault(0) is None


def test_a_device_that_does_not_answer_is_out_until_it_does() -> None:
    health = Health(out="it does not answer: GPU is lost")
    assert health.fault(0) == "it does not answer: GPU is lost"
    health.out = None
    assert health.fault(0) is None


@pytest.mark.parametrize("errors", [Errors(uncorrected=1), Errors(needs_reset=True)])
def test_bad_memory_keeps_a_device_out_until_a_reset(errors: Errors) -> None:
    health = Health(errors=errors)
    assert health.fault(1e9) is not None
    health.errors = Errors(0, needs_reset=False)
    assert health.fault(1e9) is None


def test_an_xid_of_a_program_is_forgotten_sooner_than_one_of_the_device() -> None:
    health = Health()
    health.hear_xid(31, now=0)
    assert health.fault(QUIET_AFTER_PROGRAM_S - 1) == "Xid 31"
    assert health.fault(QUIET_AFTER_PROGRAM_S + 1) is None
    health.hear_xid(79, now=100)
    assert health.fault(100 + QUIET_S - 1) == "Xid 79: it fell off the bus"
    assert health.fault(100 + QUIET_S + 1) is None


def test_a_grave_xid_is_not_covered_up_by_the_programs_that_die_of_it() -> None:
    health = Health()
    health.hear_xid(79, now=0)
    health.hear_xid(45, now=1)
    assert health.fault(QUIET_AFTER_PROGRAM_S + 2) == "Xid 79: it fell off the bus"


def test_a_stranger_is_believed_when_seen_again_and_forgotten_when_gone() -> None:
    health = Health()
    for _ in range(LOOKS):
        assert health.fault(0) is None
        health.see_unlocked([Process(7, memory_bytes=3 << 30)], 3 << 30)
    assert health.fault(0) == "used by a process that is not the farm's: process 7 (3072 MiB)"
    health.see_unlocked([], 0)
    assert health.fault(0) is None


def test_one_stranger_after_another_is_not_one_who_was_seen_again() -> None:
    health = Health()
    for _ in range(LOOKS - 1):
        health.see_unlocked([Process(7)], 0)
    health.see_unlocked([], 0)
    health.see_unlocked([Process(8)], 0)
    assert health.fault(0) is None


def test_a_stranger_whom_the_driver_does_not_show_is_told_by_the_memory() -> None:
    health = Health()
    for _ in range(LOOKS):
        health.see_unlocked([], CONTEXT_BYTES)
    assert "192 MiB are in use" in str(health.fault(0))


def test_a_job_of_this_host_is_no_stranger() -> None:
    health = Health()
    health.see_unlocked([Process(7)], None)
    health.see_locked()
    health.see_unlocked([Process(7)], None)
    assert health.fault(0) is None


def test_a_desktop_does_not_take_a_device_out() -> None:
    health = Health()
    for _ in range(LOOKS):
        health.see_unlocked([Process(7, compute=False)], CONTEXT_BYTES)
    assert health.fault(0) is None
