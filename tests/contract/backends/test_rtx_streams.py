"""Several streams of one TensorRT-RTX engine: each with a context, memory and a stream of its own.

As in ``test_rtx_running``, by the calls that the real bindings have; it was never run on an RTX GPU
here.
"""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enginefarm.errors import JobFailed
from enginefarm.spec import BenchmarkOptions
from tests.contract.backends.test_rtx_running import TARGET, Doubling, Memory
from tests.unit.workers.measurement.test_timing import Sink
from workers.backends.base import RunsConcurrently
from workers.backends.rtx_running import RtxRunner
from workers.backends.tensorrt_rtx import TensorRTRTX
from workers.measurement.conditions import Conditions
from workers.measurement.streams import sweep_streams


class Stream(Memory):
    """One of several streams on a device; a thread must have said that it uses the device."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.stream = number
        self.users: set[int] = {threading.get_ident()}

    def use(self) -> None:
        self.users.add(threading.get_ident())

    def to_device(self, device: int, host: int, size: int) -> None:
        assert threading.get_ident() in self.users
        super().to_device(device, host, size)


class Several(Doubling):
    """The same engine with what each of its contexts was given."""

    def __init__(self, most: int = 64) -> None:
        acts: dict[str, Callable[..., Any]] = {
            "IExecutionContext.set_input_shape": self._shape_of,
            "IExecutionContext.get_tensor_shape": lambda context, _name: self.of(context)["s"],
            "IExecutionContext.set_tensor_address": self._address_of,
            "IExecutionContext.execute_async_v3": self._run,
            "ICudaEngine.create_execution_context": self._start,
        }
        super().__init__(**acts)
        self.most = most
        self.contexts: dict[int, dict[str, Any]] = {}
        self.kept: list[object] = []
        self.streams: list[Stream] = []
        self.ran_on: set[tuple[int, int]] = set()

    def of(self, context: object) -> dict[str, Any]:
        return self.contexts.setdefault(id(context), {})

    def another(self) -> Stream:
        self.streams.append(Stream(100 + len(self.streams)))
        return self.streams[-1]

    def open(self, folder: Path) -> RtxRunner:
        backend = TensorRTRTX(self.api.module, has_gpu=True, memory=self.another)
        engine = folder / "model.plan"
        engine.write_bytes(b"a plan")
        runner = backend.load(engine, TARGET, 0)
        assert isinstance(runner, RtxRunner)
        return runner

    def _start(self, _engine: object, _config: object) -> object | None:
        if len(self.kept) > self.most:
            return None
        self.kept.append(self.api.module.IExecutionContext())
        return self.kept[-1]

    def _shape_of(self, context: object, _name: str, shape: tuple[int, ...]) -> bool:
        self.of(context)["s"] = tuple(shape)
        return True

    def _address_of(self, context: object, name: str, address: int) -> bool:
        self.of(context)[name] = address
        return True

    def _run(self, context: object, stream: int) -> bool:
        told = self.of(context)
        self.ran_on.add((id(context), stream))
        size = int(np.prod(told["s"]))
        x, y = (
            np.ctypeslib.as_array((ctypes.c_float * size).from_address(told[name])) for name in "xy"
        )
        y[:] = 2 * x
        return True


def test_each_stream_has_a_context_memory_and_answers_of_its_own(tmp_path: Path) -> None:
    behind = Several()
    runner = behind.open(tmp_path)
    assert isinstance(runner, RunsConcurrently)
    feeds = [{"x": np.full((2, 4), value, "float32")} for value in (1, 5)]
    bound = [runner.bound(each) for each in feeds]
    found: list[Any] = [None, None]

    def run(at: int) -> None:
        found[at] = bound[at]()

    threads = [threading.Thread(target=run, args=(at,)) for at in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [float(each[0][0, 0]) for each in found] == [2.0, 10.0]
    assert len({context for context, _ in behind.ran_on}) == 2
    assert {stream for _, stream in behind.ran_on} == {101, 102}  # 100 is the runner's own
    bound.clear()
    gc.collect()
    assert [stream.held for stream in behind.streams] == [{}, {}, {}]


def test_a_sweep_runs_them_and_tells_from_which_number_on_it_does_not(tmp_path: Path) -> None:
    runner = Several(most=3).open(tmp_path)  # the runner's own context, and three more
    options = BenchmarkOptions(
        warmup_ms=0, min_iterations=10, min_duration_ms=20, max_duration_ms=500, streams=[1, 2, 4]
    )
    feeds = {"x": np.ones((1, 4), "float32")}
    found = sweep_streams(runner, feeds, options, Conditions(None), (time.perf_counter, Sink()))
    assert [row.streams for row in found.rows] == [1, 2]
    assert "4 at a time do not run here" in (found.reason or "")


def test_what_the_runtime_does_not_start_is_a_failure_that_says_so(tmp_path: Path) -> None:
    runner = Several(most=0).open(tmp_path)
    with pytest.raises(JobFailed) as refused:
        runner.bound({"x": np.ones((1, 4), "float32")})
    assert refused.value.code == "engine_load_failed"
