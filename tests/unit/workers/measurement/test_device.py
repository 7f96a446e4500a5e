"""trtexec's metrics from the steps of each run, and the engine that is timed so."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from enginefarm.spec import BenchmarkOptions
from tests.contract.backends import made
from tests.unit.workers.measurement.test_timing import Clock, Sink
from workers.backends import ort_device
from workers.backends.base import Array, DeviceRunner, NotOnDevice, RunTimes
from workers.backends.cuda_driver import CudaDriver
from workers.measurement.device import (
    NOT_BY_EVENTS,
    OnDevice,
    host_bound,
    open_on_device,
    time_on_device,
)

QUICK = BenchmarkOptions(warmup_ms=10, min_duration_ms=50, max_duration_ms=500)


class Runner:
    """A loaded engine that may be run on a device, with a graph or without."""

    inputs: list[Any] = []  # noqa: RUF012 - nobody changes it
    outputs: list[Any] = []  # noqa: RUF012 - as above
    threads = 1

    def run(self, feeds: Mapping[str, Array]) -> list[Array | None]:
        return []


class Device:
    """A device whose every run takes a little longer than the one before."""

    def __init__(self, clock: Clock, *, cuda_graph: bool) -> None:
        self._work, self.cuda_graph = clock.work([2.0]), cuda_graph
        self.count = 0

    def run(self) -> RunTimes:
        self._work()
        self.count += 1
        return RunTimes(h2d=0.25, enqueue=0.1, compute=1.0 + self.count / 1e6, d2h=0.5)


class OnADevice(Runner):
    """An engine on a device; ``refuses`` what it cannot do."""

    def __init__(self, clock: Clock, *refuses: str) -> None:
        self._clock, self._refuses = clock, refuses

    def on_device(self, feeds: Mapping[str, Array], *, cuda_graph: bool) -> DeviceRunner:
        if ("graph" if cuda_graph else "device") in self._refuses:
            raise NotOnDevice("it cannot")
        return Device(self._clock, cuda_graph=cuda_graph)


def test_latency_is_the_sum_of_its_parts_and_warm_up_is_left_out() -> None:
    clock = Clock()
    opened = OnDevice(Device(clock, cuda_graph=False))

    told = time_on_device(opened, QUICK, clock, Sink())

    assert told is not None
    times, runs = told
    assert times.latency_ms.p50 == pytest.approx(times.gpu_compute_ms.p50 + 0.75)
    assert (times.h2d_ms.p50, times.d2h_ms.max, times.enqueue_ms.min) == (0.25, 0.5, 0.1)
    assert times.latency_ms.count < runs
    # The first runs were the warm-up, and each run is known by what it took.
    assert times.gpu_compute_ms.min == pytest.approx(1 + (runs - times.latency_ms.count + 1) / 1e6)
    assert times.throughput_qps == pytest.approx(500, rel=0.05)


def test_an_engine_of_a_runtime_without_a_device_says_so() -> None:
    opened = open_on_device(Runner(), {}, cuda_graph=False)
    assert (opened.runner, opened.reason) == (None, NOT_BY_EVENTS)
    assert time_on_device(opened, QUICK, Clock(), Sink()) is None


def test_a_graph_that_cannot_be_made_is_said_and_the_engine_is_timed_without() -> None:
    opened = open_on_device(OnADevice(Clock(), "graph"), {}, cuda_graph=True)
    assert opened.runner is not None
    assert not opened.runner.cuda_graph
    assert opened.notes == ["no CUDA graph could be made of it: it cannot"]


def test_a_graph_is_made_only_where_it_is_asked_for() -> None:
    for asked in (True, False):
        opened = open_on_device(OnADevice(Clock()), {}, cuda_graph=asked)
        assert opened.runner is not None
        assert opened.runner.cuda_graph is asked


def test_an_engine_that_does_not_run_on_the_device_has_a_reason() -> None:
    opened = open_on_device(OnADevice(Clock(), "graph", "device"), {}, cuda_graph=True)
    assert (opened.runner, opened.reason) == (None, "it cannot")


def test_without_a_driver_there_are_no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.backends.cuda_driver.LIBRARY", "libnone.so.1")
    with pytest.raises(NotOnDevice, match="driver library cannot be used"):
        CudaDriver()


@pytest.mark.parametrize(
    ("enqueue", "graph", "said"),
    [
        (0.79, False, None),
        (0.9, False, "a CUDA graph or a larger"),
        (0.9, True, "; a larger batch"),
    ],
)
def test_runs_that_wait_for_the_host_say_so_and_what_helps(
    enqueue: float, said: str | None, *, graph: bool
) -> None:
    found = host_bound(enqueue, 1.0, cuda_graph=graph)
    assert found is None if said is None else said in str(found)


class Driver:
    """A stream that does everything at once, in the memory of this process."""

    stream = 7

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.passed: list[int] = []

    def event(self) -> int:
        return len(self.kept)

    def record(self, event: int) -> None:
        self.passed.append(event)

    def wait(self, event: int) -> None:
        assert event in self.passed

    def elapsed_ms(self, start: int, end: int) -> float:
        return 1.0

    def pinned(self, size: int) -> int:
        self.kept.append(ctypes.create_string_buffer(max(size, 1)))
        return ctypes.addressof(self.kept[-1])

    def to_device(self, device: int, host: int, size: int) -> None:
        ctypes.memmove(device, host, size)

    def to_host(self, host: int, device: int, size: int) -> None:
        ctypes.memmove(host, device, size)


def bound(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ort_device.OrtDeviceRunner, Array]:
    """Return an engine with its data bound, and what it should give."""
    monkeypatch.setattr(ort_device, "CudaDriver", Driver)
    monkeypatch.setattr(ort_device, "CUDA", "cpu")
    told: list[dict[str, str]] = []

    def open_with(options: dict[str, str]) -> ort.InferenceSession:
        told.append(options)
        return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    feeds = {"x": np.random.default_rng(0).standard_normal((4, 16)).astype("f")}
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (right,) = session.run(None, feeds)
    name = session.get_outputs()[0].name
    runner = ort_device.OrtDeviceRunner(open_with, feeds, {name: right}, cuda_graph=True)
    assert told == [{"user_compute_stream": "7", "enable_cuda_graph": "1"}]
    return runner, right


def test_inputs_reach_the_device_and_outputs_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, right = bound(made.save(tmp_path / "m", made.dense()), monkeypatch)

    runner.run()

    (found,) = runner.outputs()
    assert np.array_equal(found, right)
    back = np.frombuffer(ctypes.string_at(runner.host_outputs()[0], right.nbytes), "f")
    assert np.array_equal(back.reshape(right.shape), right)


@pytest.mark.parametrize("output", [None, np.array(["text"])], ids=["sequence", "text"])
def test_outputs_that_are_no_numbers_cannot_stay_on_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: Array | None
) -> None:
    path = made.save(tmp_path / "m", made.dense())
    monkeypatch.setattr(ort_device, "CudaDriver", Driver)
    monkeypatch.setattr(ort_device, "CUDA", "cpu")
    with pytest.raises(NotOnDevice, match="no tensor of numbers"):
        ort_device.OrtDeviceRunner(
            lambda _told: ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]),
            {"x": np.zeros((4, 16), "f")},
            {"y": output},
            cuda_graph=False,
        )
