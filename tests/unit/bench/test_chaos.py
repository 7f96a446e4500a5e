"""What the bench that kills says of itself is right: recovery times, and what it kills."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bench.chaos.judge import recovery_times
from bench.chaos.killer import DATALESS, DECK, SERVICES, Kill

START = datetime(2030, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_only_an_attempt_that_began_after_the_kill_shows_that_the_farm_is_back() -> None:
    ran = [(at(0), at(12)), (at(11), at(20)), (at(13), at(18))]

    assert recovery_times([Kill(at(10), "api")], ran) == [(8, "api")]


def test_a_kill_after_which_nothing_was_left_to_do_has_no_recovery_time() -> None:
    kills = [Kill(at(10), "api"), Kill(at(30), "tasks")]

    assert recovery_times(kills, [(at(11), at(20))]) == [(10, "api")]


def test_every_service_and_every_process_is_in_the_deck() -> None:
    assert {*SERVICES, "api", "tasks", "workers", DATALESS} <= set(DECK)
