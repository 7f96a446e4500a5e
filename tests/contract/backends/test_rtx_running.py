"""What TensorRT-RTX compiles where it runs: its cache is kept, and nothing is timed before it.

How an engine is run is in ``test_trt_running``. The API is read off the real bindings, which need
no GPU for that; what runs behind it is made up. It was never run on an RTX GPU here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enginefarm.errors import JobFailed
from tasks.messages import Device
from tests.contract.backends.trt_api.engines import RTX, Behind
from workers.backends.base import LeavesRuntimeCache, NotOnDevice
from workers.backends.rtx_running import RtxRunner
from workers.backends.tensorrt_rtx import TensorRTRTX
from workers.measurement.device import open_on_device

bindings = pytest.importorskip("tensorrt_rtx_bindings")
FRESH = b"compiled here"
FEEDS = {"x": np.ones((1, 4), "float32")}


class Caching(Behind):
    """A runtime that keeps what it was given of caches, and with which strategy it starts."""

    def __init__(self) -> None:
        super().__init__(RTX)
        self.taken: list[bytes] = []
        self.takes = True
        self.strategies: list[Any] = []
        self.does(
            IRuntimeCache__deserialize=self._deserialize,
            IRuntimeCache__serialize=lambda _cache: bytearray(FRESH),
            ICudaEngine__create_execution_context=self._start_with,
            IExecutionContext__is_stream_capturable=lambda *_: True,
        )

    def open(self, folder: Path) -> RtxRunner:
        """Load an engine."""
        runner = self.load(folder)
        assert isinstance(runner, RtxRunner)
        return runner

    def _deserialize(self, _cache: object, blob: bytes) -> bool:
        self.taken.append(bytes(blob))
        return self.takes

    def _start_with(self, engine: object, config: Any) -> object | None:  # noqa: ANN401 - a stand-in
        made = vars(config)["_made"]
        self.strategies.append(made.get("dynamic_shapes_kernel_specialization_strategy"))
        return self._start(engine)


def test_what_the_first_start_compiles_is_kept_and_given_to_the_next(tmp_path: Path) -> None:
    behind = Caching()
    runner = behind.open(tmp_path)
    assert isinstance(runner, LeavesRuntimeCache)
    runner.run(FEEDS)
    assert runner.runtime_cache() == FRESH
    assert behind.taken == []
    again = runner.started_again(FRESH)
    assert again is not None
    assert behind.taken == [FRESH]
    assert np.array_equal(again.run(FEEDS)[0], 2 * FEEDS["x"])  # type: ignore[arg-type]
    behind.takes = False
    assert runner.started_again(b"of another driver") is None
    assert "IRuntimeConfig.set_runtime_cache" in behind.api.used
    del runner, again
    assert behind.library.held == {}


def test_a_start_that_fails_for_another_reason_is_no_refused_cache(tmp_path: Path) -> None:
    behind = Caching()
    runner = behind.open(tmp_path)
    behind.does(IRuntimeConfig__set_runtime_cache=lambda *_: False)
    with pytest.raises(JobFailed, match="does not keep a cache") as refused:
        runner.started_again(FRESH)
    assert refused.value.code == "engine_load_failed"


def test_what_is_timed_on_the_device_has_its_kernels_before(tmp_path: Path) -> None:
    behind = Caching()
    runner = behind.open(tmp_path)
    runner.bound(FEEDS)
    runner.on_device(FEEDS, cuda_graph=False)
    eager = behind.of("DynamicShapesKernelSpecializationStrategy", "EAGER")
    # A program, alone or with several threads, has the runtime's own default.
    assert behind.strategies == [None, None, eager]


def test_a_graph_is_not_made_while_the_runtime_has_something_left_to_compile(
    tmp_path: Path,
) -> None:
    behind = Caching()
    runner = behind.open(tmp_path)
    asked: list[int] = []
    behind.does(IExecutionContext__is_stream_capturable=lambda _, stream: asked.append(stream))
    with pytest.raises(NotOnDevice, match="says that the engine cannot be captured"):
        runner.on_device(FEEDS, cuda_graph=True)
    assert asked == [behind.ran_on[-1][1]]
    opened = open_on_device(runner, FEEDS, cuda_graph=True)
    assert opened.runner is not None
    assert not opened.runner.cuda_graph


def test_it_measures_on_the_gpus_that_are_here_and_builds_for_more() -> None:
    backend = TensorRTRTX(bindings, has_gpu=False)
    gpus = [Device(arch="sm_89", name="NVIDIA L4"), Device(arch="sm_90", name="NVIDIA H200")]
    told = backend.describe(gpus)
    assert told.measures == ["sm_89"]
    assert {"sm_86", "sm_89", "sm_120"} <= set(told.builds)
    assert backend.describe([]).measures == []
