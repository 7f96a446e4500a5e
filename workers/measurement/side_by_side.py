"""An engine and its twin on one device, in windows that take turns: which of them is faster.

Two measurements one after the other are two moments of a machine: its clock, its neighbours and
its heat change between them. Here a window of one follows a window of the other, in the order
twin, engine, engine, twin, …, so that what drifts slowly falls on both; only the ratio of the two
medians of a pair is used. The first run of each window is not counted: caches, and threads that
still spin for the other, belong to the one before.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

from enginefarm.spec import BenchmarkOptions
from enginefarm.verdict_report import MAX_PAIRS
from workers.backends.base import Clock, ProgressSink
from workers.measurement.latency import DIGITS, median
from workers.measurement.timing import SAY_EVERY_S, Stopped, warm_up

LEAST_PAIRS = 8
"""Fewer say nothing of a median at 99 %: so many are measured, whatever time that takes."""
MS = 1000.0
PHASE = "measuring side by side"

Once = Callable[[], object]


@dataclass
class _Side:
    once: Once
    runs: array[float] = field(default_factory=lambda: array("d"))

    def window(self, least_ms: float, clock: Clock, sink: ProgressSink) -> float:
        """Run for so long, but once at least; return the median of this window in ms."""
        self.once()
        opened = said = clock()
        taken: list[float] = []
        while not taken or (clock() - opened) * MS < least_ms:
            _obey(sink)
            start = clock()
            self.once()
            end = clock()
            taken.append((end - start) * MS)
            if end - said >= SAY_EVERY_S:
                said = end
                sink.report(None, PHASE)
        self.runs.extend(taken)
        return median(sorted(taken))


@dataclass(frozen=True)
class SideBySide:
    """What came out: both medians over all windows, and the ratio (twin to engine) of each pair."""

    twin_p50_ms: float
    engine_p50_ms: float
    twin_runs: int
    engine_runs: int
    ratios: list[float]


@dataclass(frozen=True)
class Turns:
    """Every run of both in ms, and the ratio (first to second) of the medians of each pair."""

    first: array[float]
    second: array[float]
    ratios: list[float]


def side_by_side(
    twin: Once, engine: Once, options: BenchmarkOptions, clock: Clock, sink: ProgressSink
) -> SideBySide:
    """Time a twin and its engine in turns: see :func:`take_turns`."""
    found = take_turns(twin, engine, options, clock, sink)
    return SideBySide(
        twin_p50_ms=round(median(sorted(found.first)), DIGITS),
        engine_p50_ms=round(median(sorted(found.second)), DIGITS),
        twin_runs=len(found.first),
        engine_runs=len(found.second),
        ratios=found.ratios,
    )


def take_turns(
    first: Once, second: Once, options: BenchmarkOptions, clock: Clock, sink: ProgressSink
) -> Turns:
    """Time both in turns: up to :data:`MAX_PAIRS` pairs of windows, within twice the time of one.

    Which of a pair comes first changes from pair to pair.

    Raises:
        Stopped: the sink says so, between two runs.
    """
    for once in (first, second):
        warm_up(once, options, clock, sink)
    sides = _Side(first), _Side(second)
    least_ms = options.min_duration_ms / MAX_PAIRS
    ratios: list[float] = []
    began = clock()
    while len(ratios) < MAX_PAIRS:
        late = (clock() - began) * MS >= 2 * options.max_duration_ms
        if late and len(ratios) >= LEAST_PAIRS:
            break
        order = sides if len(ratios) % 2 == 0 else sides[::-1]
        medians = {id(side): side.window(least_ms, clock, sink) for side in order}
        ratios.append(round(medians[id(sides[0])] / medians[id(sides[1])], DIGITS))
        sink.report(len(ratios) / MAX_PAIRS, PHASE, f"{len(ratios)} pairs")
    return Turns(sides[0].runs, sides[1].runs, ratios)


def _obey(sink: ProgressSink) -> None:
    if sink.stopping:
        raise Stopped
