"""An engine of TensorRT-RTX is run by the calls that its bindings have, and its cache is kept.

The API is read off the real bindings, which need no GPU for that; what runs behind it is made up.
It was never run on an RTX GPU here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enginefarm.errors import JobFailed
from enginefarm.target import Target
from tasks.messages import Device
from tests.contract.backends.trt_api.describe import described
from tests.contract.backends.trt_api.described import Api
from workers.backends.base import LeavesRuntimeCache
from workers.backends.rtx_running import RtxRunner
from workers.backends.tensorrt_rtx import TensorRTRTX

bindings = pytest.importorskip("tensorrt_rtx_bindings")
NAMES = (
    *("Builder", "ComputeCapability", "DataType", "ICudaEngine", "IExecutionContext"),
    *("IHostMemory", "ILogger", "IRuntimeCache", "IRuntimeConfig", "Runtime", "TensorIOMode"),
)
TARGET = Target.parse("tensorrt-rtx@sm_89")
FRESH = b"compiled here"


class Memory:
    """A device whose memory is the host's; nothing that was taken may be left."""

    stream = 7

    def __init__(self) -> None:
        self.held: dict[int, ctypes.Array[ctypes.c_char]] = {}

    def allocated(self, size: int) -> int:
        kept = ctypes.create_string_buffer(max(size, 1))
        self.held[ctypes.addressof(kept)] = kept
        return ctypes.addressof(kept)

    def freed(self, address: int) -> None:
        del self.held[address]

    def to_device(self, device: int, host: int, size: int) -> None:
        ctypes.memmove(device, host, size)

    def to_host(self, host: int, device: int, size: int) -> None:
        ctypes.memmove(host, device, size)

    def finish(self) -> None:
        """Nothing is under way."""

    def use(self) -> None:
        """Any thread may."""


class Doubling:
    """What stands behind the API: an engine that doubles x [n, 4], and what it was given."""

    def __init__(self, **acts: Callable[..., Any]) -> None:
        self.shape: tuple[int, ...] = ()
        self.addresses: dict[str, int] = {}
        self.taken: list[bytes] = []
        self.takes = True
        usual: dict[str, Callable[..., Any]] = {
            "ICudaEngine.num_io_tensors": lambda _engine: 2,
            "ICudaEngine.get_tensor_name": lambda _engine, number: "xy"[number],
            "ICudaEngine.get_tensor_mode": self._mode,
            "ICudaEngine.get_tensor_dtype": lambda _engine, _name: self._of("DataType", "FLOAT"),
            "ICudaEngine.get_tensor_shape": lambda _engine, _name: (-1, 4),
            "IExecutionContext.set_input_shape": self._set_shape,
            "IExecutionContext.get_tensor_shape": lambda _context, _name: self.shape,
            "IExecutionContext.set_tensor_address": self._set_address,
            "IExecutionContext.execute_async_v3": self._execute,
            "IRuntimeCache.deserialize": self._deserialize,
            "IRuntimeCache.serialize": lambda _cache: bytearray(FRESH),
        }
        classes = {name: described(getattr(bindings, name)) for name in NAMES}
        self.api = Api("1.7.1.116", usual | acts, classes)
        self.memory = Memory()

    def _of(self, kind: str, member: str) -> Any:  # noqa: ANN401 - a class of the stand-in
        return self.api.classes[kind][member]

    def _mode(self, _engine: object, name: str) -> Any:  # noqa: ANN401 - as above
        return self._of("TensorIOMode", "INPUT" if name == "x" else "OUTPUT")

    def _set_shape(self, _context: object, name: str, shape: tuple[int, ...]) -> bool:
        assert name == "x"
        self.shape = tuple(shape)
        return True

    def _set_address(self, _context: object, name: str, address: int) -> bool:
        assert address in self.memory.held
        self.addresses[name] = address
        return True

    def _execute(self, _context: object, stream: int) -> bool:
        assert stream == self.memory.stream
        size = int(np.prod(self.shape))
        x, y = (
            np.ctypeslib.as_array((ctypes.c_float * size).from_address(self.addresses[name]))
            for name in "xy"
        )
        y[:] = 2 * x
        return True

    def _deserialize(self, _cache: object, blob: bytes) -> bool:
        self.taken.append(bytes(blob))
        return self.takes

    def loaded(self, folder: Path) -> RtxRunner:
        backend = TensorRTRTX(self.api.module, has_gpu=True, memory=lambda: self.memory)
        engine = folder / "model.plan"
        engine.write_bytes(b"a plan")
        runner = backend.load(engine, TARGET, 0)
        assert isinstance(runner, RtxRunner)
        return runner


def test_an_engine_is_run_on_what_it_is_fed_and_gives_its_memory_back(tmp_path: Path) -> None:
    behind = Doubling()
    runner = behind.loaded(tmp_path)
    assert [(row.name, row.dtype, row.shape) for row in runner.inputs] == [
        ("x", "float32", [None, 4])
    ]
    assert [row.name for row in runner.outputs] == ["y"]
    for batch in (1, 3):
        x = np.arange(batch * 4, dtype="float32").reshape(batch, 4)
        (y,) = runner.run({"x": x})
        assert y is not None
        assert np.array_equal(y, 2 * x)
    assert behind.memory.held == {}


def test_what_the_first_start_compiles_is_kept_and_given_to_the_next(tmp_path: Path) -> None:
    behind = Doubling()
    runner = behind.loaded(tmp_path)
    assert isinstance(runner, LeavesRuntimeCache)
    runner.run({"x": np.ones((1, 4), "float32")})
    assert runner.runtime_cache() == FRESH
    assert behind.taken == []
    again = runner.started_again(FRESH)
    assert again is not None
    assert behind.taken == [FRESH]
    behind.takes = False
    assert runner.started_again(b"of another driver") is None
    assert "IRuntimeConfig.set_runtime_cache" in behind.api.used


@pytest.mark.parametrize(
    ("acts", "code"),
    [
        ({"Runtime.deserialize_cuda_engine": lambda *_: None}, "engine_load_failed"),
        ({"ICudaEngine.create_execution_context": lambda *_: None}, "engine_load_failed"),
        ({"IExecutionContext.execute_async_v3": lambda *_: False}, "engine_run_failed"),
        ({"IExecutionContext.get_tensor_shape": lambda *_: (-1, 4)}, "not_measurable_here"),
    ],
)
def test_what_the_runtime_refuses_is_a_failure_that_says_so(
    tmp_path: Path, acts: dict[str, Callable[..., Any]], code: str
) -> None:
    behind = Doubling(**acts)
    with pytest.raises(JobFailed) as refused:
        behind.loaded(tmp_path).run({"x": np.ones((1, 4), "float32")})
    assert refused.value.code == code
    assert behind.memory.held == {}


def test_an_engine_with_numbers_that_no_array_has_is_not_measured(tmp_path: Path) -> None:
    behind = Doubling()
    behind.api.acts["ICudaEngine.get_tensor_dtype"] = lambda *_: behind._of("DataType", "BF16")
    with pytest.raises(JobFailed, match="cannot be measured") as refused:
        behind.loaded(tmp_path)
    assert refused.value.code == "not_measurable_here"


def test_it_measures_on_the_gpus_that_are_here_and_builds_for_more() -> None:
    backend = TensorRTRTX(bindings, has_gpu=False)
    gpus = [Device(arch="sm_89", name="NVIDIA L4"), Device(arch="sm_90", name="NVIDIA H200")]
    told = backend.describe(gpus)
    assert told.measures == ["sm_89"]
    assert {"sm_86", "sm_89", "sm_120"} <= set(told.builds)
    assert backend.describe([]).measures == []


def test_each_run_is_made_under_the_profile_that_fits_its_shapes(tmp_path: Path) -> None:
    ranges = [[(1, 4), (1, 4), (2, 4)], [(1, 4), (8, 4), (16, 4)]]
    chosen = [0]

    def take(_context: object, number: int, stream: int) -> bool:
        assert stream == Memory.stream
        chosen.append(number)
        return True

    acts: dict[str, Callable[..., Any]] = {
        "ICudaEngine.num_optimization_profiles": lambda _engine: 2,
        "ICudaEngine.get_tensor_profile_shape": lambda _engine, _name, number: ranges[number],
        "IExecutionContext.active_optimization_profile": lambda _context: chosen[-1],
        "IExecutionContext.set_optimization_profile_async": take,
    }
    behind = Doubling(**acts)
    runner = behind.loaded(tmp_path)
    for batch in (1, 2, 8, 12, 1):
        (y,) = runner.run({"x": np.ones((batch, 4), "float32")})
        assert y is not None
    assert chosen == [0, 1, 0]
