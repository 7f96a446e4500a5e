"""Run something over and over, as the options say: warm up, then until the median is stable.

The clock is injected. The limit on time wins over the minimum count; the report then says so.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

from enginefarm.report import Histogram, Moment, Percentiles
from enginefarm.spec import BenchmarkOptions
from workers.backends.base import Clock, ProgressSink
from workers.measurement.histograms import latency_histogram
from workers.measurement.latency import kept_runs, median, over_time, settled, summarize

WINDOW_ITERATIONS = 10
WINDOWS_IN_MINIMUM = 5
MAX_SAMPLES = 2_000_000
MS = 1000.0
SPIKE_RATIO = 3.0
SAY_EVERY_S = 0.5


@dataclass(frozen=True)
class Measured:
    """What came out of one measurement."""

    distribution: Percentiles
    throughput_qps: float
    warmup_iterations: int
    warmup_ms: float
    stable: bool
    histogram: Histogram
    over_time: list[Moment]
    runs_ms: list[float]
    notes: list[str] = field(default_factory=list)

    @property
    def disturbed(self) -> bool:
        """Whether single runs took so long that something else must have been at work."""
        return _spikes(self.distribution)


class Stopped(Exception):
    """The measurement was told to stop."""


def measure(
    once: Callable[[], object], options: BenchmarkOptions, clock: Clock, sink: ProgressSink
) -> Measured:
    """Time ``once`` until its median is stable or the time is over.

    Raises:
        Stopped: the sink says so, between two runs.
    """
    warm_count, warm_ms = warm_up(once, options, clock, sink)
    starts, samples = array("d"), array("d")
    medians: list[float] = []
    began = clock()
    stable = False
    while not stable and (clock() - began) * MS < options.max_duration_ms:
        window = _window(once, options, clock, sink, began)
        starts.extend(start * MS for start, _ in window)
        taken = [took for _, took in window]
        samples.extend(taken)
        medians.append(median(sorted(taken)))
        elapsed_ms = (clock() - began) * MS
        sink.report(min(elapsed_ms / options.max_duration_ms, 1.0), "measuring", f"{len(samples)}")
        enough = len(samples) >= options.min_iterations and elapsed_ms >= options.min_duration_ms
        stable = enough and settled(medians, options.stable_within)
        if len(samples) >= MAX_SAMPLES:
            break
    wall = clock() - began
    distribution = summarize(samples)
    return Measured(
        distribution=distribution,
        throughput_qps=len(samples) / wall,
        warmup_iterations=warm_count,
        warmup_ms=warm_ms,
        stable=stable,
        histogram=latency_histogram(sorted(samples), distribution.p99),
        over_time=over_time(starts, samples),
        runs_ms=kept_runs(samples),
        notes=_notes(distribution, options, stable=stable, seconds=wall),
    )


def warm_up(
    once: Callable[[], object], options: BenchmarkOptions, clock: Clock, sink: ProgressSink
) -> tuple[int, float]:
    """Run until it is warm, once at least; return how often, and for how many ms.

    Raises:
        Stopped: the sink says so, between two runs.
    """
    began, count = clock(), 0
    while count == 0 or (clock() - began) * MS < options.warmup_ms:
        _obey(sink)
        once()
        count += 1
    sink.report(0.0, "warmed up", f"{count}")
    return count, (clock() - began) * MS


def _window(
    once: Callable[[], object],
    options: BenchmarkOptions,
    clock: Clock,
    sink: ProgressSink,
    began: float,
) -> list[tuple[float, float]]:
    """Return one window: at least ten runs and a fifth of the least duration, within the limit.

    Of each run, when it began by the clock, and how many ms it took.
    """
    opened = said = clock()
    least_ms = options.min_duration_ms / WINDOWS_IN_MINIMUM
    times: list[tuple[float, float]] = []
    while True:
        _obey(sink)
        start = clock()
        once()
        end = clock()
        times.append((start, (end - start) * MS))
        if end - said >= SAY_EVERY_S:
            said = end
            share = (end - began) * MS / options.max_duration_ms
            sink.report(min(share, 1.0), "measuring")
        full = len(times) >= WINDOW_ITERATIONS and (end - opened) * MS >= least_ms
        if full or (end - began) * MS >= options.max_duration_ms:
            return times


def _obey(sink: ProgressSink) -> None:
    if sink.stopping:
        raise Stopped


def _notes(
    found: Percentiles, options: BenchmarkOptions, *, stable: bool, seconds: float
) -> list[str]:
    notes = []
    if not stable:
        notes.append(
            f"the median had not settled within {options.stable_within:.1%} after {seconds:.1f} s"
        )
    if found.count < options.min_iterations:
        notes.append(f"{found.count} runs of at least {options.min_iterations}: the time was over")
    if _spikes(found):
        notes.append(f"P99 is {found.p99 / found.p50:.1f} times P50: the machine was not quiet")
    return notes


def _spikes(found: Percentiles) -> bool:
    return found.p50 > 0 and found.p99 / found.p50 > SPIKE_RATIO
