"""Two engines in turns: the ratio is theirs, and not that of two moments of the machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from enginefarm.spec import BenchmarkOptions
from enginefarm.verdict_report import MAX_PAIRS, PairedRuns
from tasks.verdict import speed_of
from workers.measurement.side_by_side import LEAST_PAIRS, SideBySide, side_by_side
from workers.measurement.timing import Stopped

OPTIONS = BenchmarkOptions(warmup_ms=0, min_duration_ms=310, max_duration_ms=10_000)


@dataclass
class Machine:
    """A machine with a clock of its own, which only runs while an engine does."""

    now: float = 0.0
    drift: float = 0.0
    """How much slower it becomes each second."""
    stop_after: float = float("inf")

    def engine(self, ms: float, cold_ms: float = 0.0) -> Callable[[], None]:
        def run() -> None:
            cold = cold_ms if self.last is not run else 0.0
            self.now += (ms + cold) / 1000 * (1 + self.drift * self.now)
            self.last = run

        return run

    last: Callable[[], None] | None = None

    def clock(self) -> float:
        return self.now

    @property
    def stopping(self) -> bool:
        return self.now > self.stop_after

    def report(self, fraction: float | None, phase: str, detail: str = "") -> None:
        """Nobody listens."""


def measured(machine: Machine, twin_ms: float, engine_ms: float, **cold: float) -> SideBySide:
    twin, engine = machine.engine(twin_ms, **cold), machine.engine(engine_ms, **cold)
    return side_by_side(twin, engine, OPTIONS, machine.clock, machine)


def judged(found: SideBySide) -> tuple[float, bool]:
    row = PairedRuns(
        shapes={},
        twin_p50_ms=found.twin_p50_ms,
        engine_p50_ms=found.engine_p50_ms,
        twin_runs=found.twin_runs,
        engine_runs=found.engine_runs,
        ratios=found.ratios,
    )
    told = speed_of(row)
    return told.speedup, told.faster


@pytest.mark.parametrize(
    ("twin_ms", "engine_ms", "faster"),
    [
        (3.0, 2.0, True),
        (2.0, 3.0, False),  # a planted engine that is slower
        (2.0, 2.0, False),
        (2.04, 2.0, False),  # faster, by less than matters
        (2.08, 2.0, True),
    ],
)
def test_the_ratio_is_that_of_the_twin_to_the_engine(
    twin_ms: float, engine_ms: float, *, faster: bool
) -> None:
    found = measured(Machine(), twin_ms, engine_ms)
    speedup, shown = judged(found)
    assert speedup == pytest.approx(twin_ms / engine_ms)
    assert shown is faster
    assert len(found.ratios) == MAX_PAIRS
    assert (found.twin_p50_ms, found.engine_p50_ms) == pytest.approx((twin_ms, engine_ms))


def test_a_machine_that_becomes_slower_and_slower_makes_no_verdict() -> None:
    machine = Machine(drift=5.0)
    found = measured(machine, 2.0, 2.0)
    assert machine.now > 1.0  # in the end a run took many times as long
    speedup, faster = judged(found)
    assert speedup == pytest.approx(1.0, abs=0.02)
    assert not faster


def test_what_a_change_of_turns_costs_is_not_counted() -> None:
    found = measured(Machine(), 3.0, 2.0, cold_ms=50.0)
    assert found.ratios == [1.5] * MAX_PAIRS


def test_slow_engines_get_as_many_pairs_as_a_verdict_needs_and_not_more() -> None:
    found = measured(Machine(), 9000.0, 6000.0)
    assert len(found.ratios) == LEAST_PAIRS
    assert found.twin_runs == found.engine_runs == LEAST_PAIRS
    assert judged(found) == (1.5, True)


def test_it_stops_when_it_is_told_to() -> None:
    with pytest.raises(Stopped):
        measured(Machine(stop_after=0.1), 3.0, 2.0)
