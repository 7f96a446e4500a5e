"""An engine run by several threads at once: throughput and latency for so many streams.

Threads of this process, since a session may be run by several at a time and lets go of the
interpreter while it runs. All begin together and are stopped together; a run that has begun is
finished and counts.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from enginefarm.spec import BenchmarkOptions
from enginefarm.streams_report import StreamsReport, with_best
from workers.backends.base import Clock, ProgressSink, Runner, RunsConcurrently
from workers.diagnosis import shorten
from workers.measurement.conditions import Conditions, ReadEnergy, Worked
from workers.measurement.inputs import Feeds
from workers.measurement.latency import summarize
from workers.measurement.timing import MS, Stopped, warm_up
from workers.measurement.trusting import Spent

NOT_AT_ONCE = "this runtime does not let several threads run one engine"
LOOK_EVERY_S = 0.02
PHASE = "measuring streams"
Once = Callable[[], object]


@dataclass(frozen=True)
class Swept:
    """What a sweep came to; ``reason``: why rows are missing."""

    rows: list[StreamsReport]
    reason: str | None = None


@dataclass
class Stream:
    """One thread's work: its runs in ms, when it began and ended, and what went wrong."""

    once: Once
    runs: array[float] = field(default_factory=lambda: array("d"))
    began: float = 0.0
    ended: float = 0.0
    error: Exception | None = None

    def work(self, gate: threading.Barrier, over: threading.Event, clock: Clock) -> None:
        """Wait for the others, then run until it is over."""
        gate.wait()
        self.began = self.ended = clock()
        try:
            while not self.runs or not over.is_set():
                start = clock()
                self.once()
                self.ended = clock()
                self.runs.append((self.ended - start) * MS)
        except Exception as error:  # noqa: BLE001 - whatever a runtime raises; told by who waits
            self.error = error
            over.set()


def sweep_streams(
    engine: Runner,
    feeds: Feeds,
    options: BenchmarkOptions,
    conditions: Conditions,
    measured: tuple[Clock, ProgressSink],
) -> Swept:
    """Measure each number of streams that was asked for, in turn, up to one that does not run.

    Raises:
        Stopped: the sink says so.
    """
    if not options.streams:
        return Swept([])
    if not isinstance(engine, RunsConcurrently):
        return Swept([], NOT_AT_ONCE)
    clock, sink = measured
    rows: list[StreamsReport] = []
    for count in dict.fromkeys(options.streams):
        sink.report(None, PHASE, f"{count} at a time")
        try:
            rows.append(_measured(engine, feeds, options, conditions, (count, clock, sink)))
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a runtime raises
            said = f"{count} at a time do not run here: {shorten(str(error), 300)}"
            return Swept(with_best(rows), said)
    return Swept(with_best(rows))


def _measured(
    engine: RunsConcurrently,
    feeds: Feeds,
    options: BenchmarkOptions,
    conditions: Conditions,
    how: tuple[int, Clock, ProgressSink],
) -> StreamsReport:
    count, clock, sink = how
    streams = [engine.bound(feeds) for _ in range(count)]
    for once in streams:
        once()
    warm_up(streams[0], options, clock, sink)

    def work(energy: ReadEnergy) -> Worked[StreamsReport]:
        before = energy()
        report = run_at_once(streams, options, clock, sink)
        after, runs = energy(), report.end_to_end_ms.count
        used = None if before is None or after is None else after - before
        # That runs wait for each other is what is measured here, and no taint.
        return Worked(report, None, Spent(used, runs))

    report, trust = conditions.until_quiet(work)
    return report.model_copy(update={"trust": trust})


def run_at_once(
    streams: Sequence[Once], options: BenchmarkOptions, clock: Clock, sink: ProgressSink
) -> StreamsReport:
    """Run all at once, as long and as often as the options ask for.

    Raises:
        Stopped: the sink says so.
        Exception: what a run has raised.
    """
    every = [Stream(once) for once in streams]
    gate, over = threading.Barrier(len(every)), threading.Event()
    threads = [
        threading.Thread(target=each.work, args=(gate, over, clock), daemon=True) for each in every
    ]
    began = clock()
    for thread in threads:
        thread.start()
    while not over.wait(LOOK_EVERY_S):
        elapsed_ms = (clock() - began) * MS
        ran = sum(len(each.runs) for each in every)
        enough = elapsed_ms >= options.min_duration_ms and ran >= options.min_iterations
        if enough or elapsed_ms >= options.max_duration_ms or sink.stopping:
            over.set()
    for thread in threads:
        thread.join()
    if sink.stopping:
        raise Stopped
    for each in every:
        if each.error is not None:
            raise each.error
    return told_of(every)


def told_of(every: Sequence[Stream]) -> StreamsReport:
    """Return what all streams did together, from the first beginning to the last end."""
    runs = [ms for each in every for ms in each.runs]
    wall = max(each.ended for each in every) - min(each.began for each in every)
    return StreamsReport(
        streams=len(every),
        throughput_qps=len(runs) / wall,
        end_to_end_ms=summarize(runs),
    )
