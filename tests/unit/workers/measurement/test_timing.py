"""Running until the median is stable, on a clock that the test turns."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from enginefarm.report import MAX_KEPT_RUNS, MAX_MOMENTS
from enginefarm.spec import BenchmarkOptions
from workers.measurement.latency import kept_runs, over_time
from workers.measurement.timing import Stopped, measure


class Clock:
    """A clock that moves only when work is done."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, milliseconds: list[float]) -> Callable[[], None]:
        """Return a callable that takes these times in turn, the last one for ever."""
        times = itertools.chain(milliseconds[:-1], itertools.repeat(milliseconds[-1]))

        def once() -> None:
            self.now += next(times) / 1000

        return once


class Sink:
    """Hears progress; stops after ``stop_after`` reports."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.said: list[tuple[float | None, str]] = []
        self._stop_after = stop_after

    def report(self, fraction: float | None, phase: str, detail: str = "") -> None:
        self.said.append((fraction, phase))

    @property
    def stopping(self) -> bool:
        """Whether it has heard enough."""
        return self._stop_after is not None and len(self.said) >= self._stop_after


def options(**changes: int) -> BenchmarkOptions:
    """Return quick options, changed as asked."""
    base = {"warmup_ms": 20, "min_iterations": 50, "min_duration_ms": 100, "max_duration_ms": 2000}
    return BenchmarkOptions.model_validate(base | changes)


def test_a_steady_run_is_stable_once_count_and_time_are_reached() -> None:
    clock = Clock()
    found = measure(clock.work([2.0]), options(), clock, Sink())
    assert found.stable
    assert found.notes == []
    assert found.distribution.count >= 50
    assert found.distribution.p50 == pytest.approx(2.0)
    assert found.throughput_qps == pytest.approx(500, rel=0.01)


def test_warm_up_runs_are_not_counted() -> None:
    clock = Clock()
    found = measure(clock.work([500.0, 2.0]), options(), clock, Sink())
    assert found.warmup_iterations == 1
    assert found.warmup_ms == pytest.approx(500)
    assert found.distribution.max == pytest.approx(2.0)


def test_at_least_one_warm_up_run_is_made_when_none_is_asked_for() -> None:
    clock = Clock()
    assert measure(clock.work([1.0]), options(warmup_ms=0), clock, Sink()).warmup_iterations == 1


def test_a_drifting_run_goes_on_to_the_limit_and_says_so() -> None:
    clock = Clock()
    found = measure(clock.work([2.0 * 1.01**i for i in range(1000)]), options(), clock, Sink())
    assert not found.stable
    assert "had not settled" in found.notes[0]


def test_the_limit_on_time_wins_over_the_minimum_count_and_says_so() -> None:
    clock = Clock()
    found = measure(clock.work([300.0]), options(), clock, Sink())
    assert found.distribution.count < 50
    assert any("of at least 50" in note for note in found.notes)


def test_spikes_are_said() -> None:
    clock = Clock()
    work = clock.work(list(itertools.islice(itertools.cycle([2.0] * 40 + [30.0]), 5000)))
    found = measure(work, options(min_iterations=200), clock, Sink())
    assert any("times P50" in note for note in found.notes)


def test_it_stops_between_two_runs() -> None:
    clock = Clock()
    with pytest.raises(Stopped):
        measure(clock.work([2.0]), options(), clock, Sink(stop_after=2))


def test_progress_stays_within_bounds() -> None:
    clock, sink = Clock(), Sink()
    measure(clock.work([2.0]), options(), clock, sink)
    assert all(fraction is not None and 0 <= fraction <= 1 for fraction, _ in sink.said)


def test_the_runs_are_kept_in_their_order_and_the_measurement_is_told_over_time() -> None:
    clock = Clock()
    found = measure(clock.work([2.0] * 500 + [4.0]), options(warmup_ms=0), clock, Sink())

    assert len(found.runs_ms) == min(found.distribution.count, MAX_KEPT_RUNS)
    assert sum(found.histogram.counts) == found.distribution.count
    assert len(found.over_time) <= MAX_MOMENTS
    starts = [moment.at_ms for moment in found.over_time]
    assert starts[0] == 0
    assert starts == sorted(starts)


def test_a_long_measurement_is_told_in_as_few_numbers_as_a_short_one() -> None:
    samples = [1.0 + n / 1e6 for n in range(100_000)]
    starts = [float(n) for n in range(100_000)]

    runs, moments = kept_runs(samples), over_time(starts, samples)

    assert len(runs) == MAX_KEPT_RUNS
    assert runs == sorted(runs)
    assert runs[0] == samples[0]
    assert runs[-1] > samples[99_000]
    assert len(moments) == MAX_MOMENTS
    assert moments[1].at_ms == pytest.approx(100_000 / MAX_MOMENTS, abs=1)
    assert moments[-1].max == pytest.approx(samples[-1])
