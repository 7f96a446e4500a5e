"""Who else is on a device, though process numbers mean little."""

from __future__ import annotations

from workers.gpu.exclusive import CONTEXT_BYTES, Onlookers
from workers.gpu.port import Process

OWN, OTHER, ALIAS = Process(10), Process(20, memory_bytes=512 << 20), Process(99_999)
OURS = CONTEXT_BYTES * 3


def onlookers(before: list[Process] | None = None, used: int | None = 0) -> Onlookers:
    made = Onlookers(own=frozenset({10}))
    made.look_before(before or [], used)
    return made


def test_the_jobs_own_context_is_no_stranger() -> None:
    made = onlookers()
    made.look_during([OWN], OURS)
    assert made.verdict()[0] is True


def test_the_jobs_own_context_is_known_under_another_namespaces_number() -> None:
    made = onlookers()
    made.look_during([ALIAS], OURS)
    made.look_during([ALIAS], OURS)
    assert made.verdict()[0] is True


def test_a_second_process_is_a_stranger_whatever_our_own_number_is() -> None:
    for ours in (OWN, ALIAS):
        made = onlookers()
        made.look_during([ours], OURS)
        made.look_during([ours, OTHER], OURS)
        alone, proof = made.verdict()
        assert alone is False
        assert "process 20 with 512 MiB came while the job ran" in proof


def test_a_stranger_who_grows_is_told_once_as_he_was_last() -> None:
    made = onlookers()
    made.look_during([OWN, Process(20, memory_bytes=14 << 20)], OURS)
    made.look_during([OWN, OTHER], OURS)
    assert made.strangers == ["process 20 with 512 MiB came while the job ran"]


def test_whoever_was_there_first_is_a_stranger_even_under_our_own_number() -> None:
    made = onlookers([OWN])
    made.look_during([OWN], OURS)
    assert made.verdict()[0] is False


def test_a_stranger_who_has_gone_before_the_next_measurement_is_held_against_nobody() -> None:
    first = onlookers([OTHER])
    first.look_during([OTHER, ALIAS], OURS)
    assert first.verdict()[0] is False

    again = first.again()
    again.look_during([ALIAS], OURS)

    assert again.verdict()[0] is True
    still = first.again()
    still.look_during([OTHER, ALIAS], OURS)
    assert still.verdict()[0] is False


def test_where_no_process_is_shown_memory_tells_of_one_that_was_there() -> None:
    made = onlookers(used=CONTEXT_BYTES)
    made.look_during([], OURS)
    assert made.verdict()[0] is False


def test_where_no_process_is_shown_memory_tells_of_one_that_came() -> None:
    made = onlookers()
    made.look_during([], OURS)
    made.look_during([], OURS + CONTEXT_BYTES)
    alone, proof = made.verdict()
    assert alone is False
    assert "MiB more were in use while the job ran" in proof


def test_where_no_process_is_shown_steady_memory_is_the_proof() -> None:
    made = onlookers()
    made.look_during([], OURS)
    made.look_during([], OURS + 1)
    alone, proof = made.verdict()
    assert alone is True
    assert "shows no processes here" in proof


def test_where_nothing_is_shown_nothing_is_known() -> None:
    made = onlookers(used=None)
    made.look_during([], None)
    assert made.verdict()[0] is None


def test_a_desktop_that_draws_is_a_stranger_to_a_measurement() -> None:
    made = onlookers([Process(5, compute=False)])
    made.look_during([Process(5, compute=False), OWN], OURS)
    assert made.verdict()[0] is False
