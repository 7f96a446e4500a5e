"""Several runs at a time: what is counted, which number of streams is best, and what ends it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from enginefarm.spec import BenchmarkOptions
from enginefarm.streams_report import StreamsReport, with_best
from enginefarm.target import Target
from enginefarm.trust_record import TrustRecord
from tests.contract.backends import made
from tests.unit.workers.measurement.test_timing import Sink
from workers.backends.base import Array
from workers.backends.onnxruntime import open_backend
from workers.measurement.conditions import Conditions
from workers.measurement.latency import summarize
from workers.measurement.streams import (
    NOT_AT_ONCE,
    Stream,
    Swept,
    run_at_once,
    sweep_streams,
    told_of,
)
from workers.measurement.timing import Stopped

CPU = Target(backend="onnxruntime", arch="cpu")
QUICK = BenchmarkOptions(warmup_ms=0, min_iterations=10, min_duration_ms=30, max_duration_ms=2000)


@dataclass
class Device:
    """An engine whose runs take a while, of which so many go on at once."""

    most: int = 64
    """Beyond so many it does not run."""
    opened: int = 0
    inside: int = 0
    seen: int = 0
    inputs: list[object] = field(default_factory=list)
    outputs: list[object] = field(default_factory=list)
    threads: int = 1

    def __post_init__(self) -> None:
        """Count with a lock."""
        self._lock = threading.Lock()

    def run(self, feeds: Mapping[str, Array]) -> list[Array | None]:
        """Run by itself."""
        raise NotImplementedError

    def bound(self, _feeds: Mapping[str, Array]) -> Callable[[], object]:
        """Return one more stream."""
        self.opened += 1
        too_many = self.opened > self.most
        return lambda: self._run(too_many=too_many)

    def _run(self, *, too_many: bool) -> None:
        if too_many:
            message = "CUBLAS_STATUS_ALLOC_FAILED"
            raise RuntimeError(message)
        with self._lock:
            self.inside += 1
            self.seen = max(self.seen, self.inside)
        time.sleep(0.002)
        with self._lock:
            self.inside -= 1


def swept(device: object, *streams: int) -> Swept:
    options = QUICK.model_copy(update={"streams": list(streams)})
    ways = time.perf_counter, Sink()
    return sweep_streams(device, {}, options, Conditions(None), ways)  # type: ignore[arg-type]


def row(streams: int, qps: float, *tainted: str) -> StreamsReport:
    trust = TrustRecord(exclusive=True, exclusive_proof="by the test", tainted=list(tainted))
    times = summarize([1.0, 2.0])
    return StreamsReport(streams=streams, throughput_qps=qps, end_to_end_ms=times, trust=trust)


def test_so_many_run_at_once_and_all_of_their_runs_count() -> None:
    device = Device()
    (one,) = swept(device, 1).rows
    assert device.seen == 1
    (four,) = swept(device, 4).rows
    assert device.seen == 4
    assert (one.streams, four.streams) == (1, 4)
    assert four.end_to_end_ms.count >= QUICK.min_iterations
    assert four.trust is not None


def test_throughput_is_of_all_runs_from_the_first_beginning_to_the_last_end() -> None:
    one, other = Stream(int), Stream(int)
    one.runs.extend([10.0, 20.0])
    other.runs.extend([30.0])
    one.began, one.ended, other.began, other.ended = 5.0, 5.5, 5.25, 6.5
    told = told_of([one, other])
    assert (told.streams, told.throughput_qps) == (2, 3 / 1.5)
    assert (told.end_to_end_ms.count, told.end_to_end_ms.p50) == (3, 20.0)


def test_the_fewest_streams_near_the_highest_throughput_are_the_best() -> None:
    rows = with_best([row(1, 100), row(2, 195), row(4, 200), row(8, 150)])
    assert [each.streams for each in rows if each.best] == [2]
    doubted = with_best([row(1, 100), row(2, 195, "clocks were held down"), row(4, 120)])
    assert [each.streams for each in doubted if each.best] == [4]
    assert with_best([]) == []
    assert not any(each.best for each in with_best([row(1, 100, "x")]))


def test_a_number_that_does_not_run_ends_the_sweep_and_is_told() -> None:
    found = swept(Device(most=3), 1, 2, 8)
    assert [each.streams for each in found.rows] == [1, 2]
    assert found.reason is not None
    assert "8 at a time do not run here: CUBLAS_STATUS_ALLOC_FAILED" in found.reason


def test_a_run_that_fails_on_the_way_ends_all_and_is_raised() -> None:
    left = iter(range(12))

    def once() -> None:
        if next(left, None) is None:
            message = "lost"
            raise RuntimeError(message)

    before = set(threading.enumerate())
    with pytest.raises(RuntimeError, match="lost"):
        run_at_once([once, once], QUICK, time.perf_counter, Sink())
    assert set(threading.enumerate()) <= before


def test_it_stops_when_it_is_told_to() -> None:
    sink = Sink(stop_after=0)
    with pytest.raises(Stopped):
        run_at_once([lambda: time.sleep(0.001)] * 2, QUICK, time.perf_counter, sink)


def test_nothing_is_done_unless_it_is_asked_for_and_possible() -> None:
    device = Device()
    assert swept(device) == Swept([])
    assert device.opened == 0
    assert swept(object(), 2) == Swept([], NOT_AT_ONCE)


def test_onnx_runtime_runs_one_session_from_several_threads_each_with_its_own_outputs(
    tmp_path: Path,
) -> None:
    engine = open_backend().load(made.save(tmp_path / "m", made.dense()), CPU, 1)
    feeds = {"x": np.ones((4, 16), dtype=np.float32)}
    options = QUICK.model_copy(update={"streams": [1, 3]})
    ways = time.perf_counter, Sink()
    found = sweep_streams(engine, feeds, options, Conditions(None), ways)
    assert found.reason is None
    assert [each.streams for each in found.rows] == [1, 3]
