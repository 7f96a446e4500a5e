"""Stand-ins for TensorRT and TensorRT-RTX that open and run an engine, on the driver's stand-in.

The engine gives y = 2x for x [n, 4]; ``s``, the shape of x, which lies on the host; and ``z``, the
values of x above 0, of which only a run can tell how many there are.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from enginefarm.compile_options import CompileOptions
from enginefarm.target import Target
from tests.contract.backends.trt_api.describe import described
from tests.contract.backends.trt_api.described import VERSIONS, Api, description
from tests.contract.cuda.library import Library
from workers.backends.cuda_driver import CudaDriver
from workers.backends.tensorrt import TensorRT
from workers.backends.tensorrt_rtx import TensorRTRTX
from workers.backends.trt.running import EngineRunner

RTX = "tensorrt-rtx"
HERE = [*VERSIONS, *([RTX] if importlib.util.find_spec("tensorrt_rtx_bindings") else [])]
NEEDED = (
    *("DataType", "ICudaEngine", "IExecutionContext", "ILogger", "IOutputAllocator", "Runtime"),
    *("TensorIOMode", "TensorLocation"),
)
ONLY_RTX = ("DynamicShapesKernelSpecializationStrategy", "IRuntimeCache", "IRuntimeConfig")
HOST_CODE = b"a plan with code for the host"
COMPUTE_MS = 1.0
KINDS = {"x": "FLOAT", "y": "FLOAT", "z": "FLOAT", "s": "INT64"}
Array = np.ndarray[Any, Any]


@dataclass
class Context:
    """What one context was told."""

    shape: tuple[int, ...] = ()
    profile: int = 0
    addresses: dict[str, int] = field(default_factory=dict)
    allocators: dict[str, Any] = field(default_factory=dict)


class Behind:
    """What stands behind the API: one engine, its contexts, and what they ran on."""

    def __init__(
        self,
        runtime: str,
        outputs: str = "y",
        profiles: tuple[tuple[int, int, int], ...] = ((1, 4, 8),),
    ) -> None:
        """Stand in for TensorRT in a version, or for TensorRT-RTX; profiles are of n."""
        self.names, self.profiles, self.most = "x" + outputs, profiles, 64
        self.library, self.contexts = Library(), dict[int, Context]()
        self.ran_on: list[tuple[int, int]] = []
        self.host_code_allowed: bool | None = None
        self.kept: list[object] = []
        self.api = self._api(runtime)
        kind = TensorRTRTX if runtime == RTX else TensorRT
        self.backend = kind(self.api.module, has_gpu=True, stream=self.stream)
        self.target = Target.parse(f"{self.backend.name}@sm_89")

    def stream(self) -> CudaDriver:
        """Open a stream on the device."""
        return CudaDriver(load=self.library.load)

    def load(
        self, folder: Path, plan: bytes = b"a plan", built: CompileOptions | None = None
    ) -> EngineRunner:
        """Load a plan as a node does."""
        engine = folder / "model.plan"
        engine.write_bytes(plan)
        runner = self.backend.load(engine, self.target, 0, built)
        assert isinstance(runner, EngineRunner)
        return runner

    def does(self, **acts: Callable[..., Any]) -> None:
        """Let methods do something else, by ``Class__method``."""
        self.api.acts.update({name.replace("__", "."): act for name, act in acts.items()})

    def say(self, text: str) -> None:
        """Log an error, as the runtime does before it says no."""
        logger = self.backend._compiler.logger
        logger.log(logger.Severity["ERROR"], text)

    def of(self, kind: str, member: str) -> Any:  # noqa: ANN401 - a class of the stand-in
        """Return a member of an enum."""
        return self.api.classes[kind][member]

    def told(self, context: object) -> Context:
        """Return what a context was told."""
        return self.contexts.setdefault(id(context), Context())

    def _api(self, runtime: str) -> Api:
        acts: dict[str, Callable[..., Any]] = {
            "Runtime.deserialize_cuda_engine": self._open,
            "ICudaEngine.num_io_tensors": lambda _: len(self.names),
            "ICudaEngine.num_optimization_profiles": lambda _: len(self.profiles),
            "ICudaEngine.get_tensor_name": lambda _, number: self.names[number],
            "ICudaEngine.get_tensor_mode": self._mode,
            "ICudaEngine.get_tensor_dtype": lambda _, name: self.of("DataType", KINDS[name]),
            "ICudaEngine.get_tensor_location": self._location,
            "ICudaEngine.get_tensor_shape": lambda _, name: {"z": (-1,), "s": (2,)}.get(
                name, (-1, 4)
            ),
            "ICudaEngine.get_tensor_profile_shape": self._profile,
            "ICudaEngine.create_execution_context": self._start,
            "IExecutionContext.active_optimization_profile": lambda c: self.told(c).profile,
            "IExecutionContext.set_optimization_profile_async": self._choose,
            "IExecutionContext.set_input_shape": self._shaped,
            "IExecutionContext.get_tensor_shape": self._shape_of,
            "IExecutionContext.set_tensor_address": self._addressed,
            "IExecutionContext.set_output_allocator": self._allocates,
            "IExecutionContext.execute_async_v3": self._run,
        }
        return Api("1.7.1.116" if runtime == RTX else runtime, acts, recorded(runtime))

    def _open(self, runtime: Any, plan: Any) -> object | None:  # noqa: ANN401 - stand-ins
        self.host_code_allowed = bool(vars(runtime)["_made"].get("engine_host_code_allowed", False))
        if bytes(plan) == HOST_CODE and not self.host_code_allowed:
            self.say("The engine has host code, and engine_host_code_allowed is not set")
            return None
        return self._made("ICudaEngine")

    def _made(self, kind: str) -> object:
        found: object = self.api._empty(kind)
        return found

    def _mode(self, _engine: object, name: str) -> Any:  # noqa: ANN401 - as above
        return self.of("TensorIOMode", "INPUT" if name == "x" else "OUTPUT")

    def _location(self, _engine: object, name: str) -> Any:  # noqa: ANN401 - as above
        return self.of("TensorLocation", "HOST" if name == "s" else "DEVICE")

    def _profile(self, _engine: object, name: str, number: int) -> list[tuple[int, int]]:
        assert name == "x"
        return [(n, 4) for n in self.profiles[number]]

    def _start(self, _engine: object, *_config: object) -> object | None:
        if len(self.kept) >= self.most:
            self.say("createExecutionContext: there is no more room")
            return None
        self.kept.append(self._made("IExecutionContext"))
        return self.kept[-1]

    def _choose(self, context: object, number: int, stream: int) -> bool:
        assert stream
        self.told(context).profile = number
        return True

    def _shaped(self, context: object, name: str, shape: tuple[int, ...]) -> bool:
        told = self.told(context)
        low, _, high = self.profiles[told.profile]
        if name != "x" or len(shape) != 2 or not low <= shape[0] <= high or shape[1] != 4:
            self.say(f"Supplied shape for {name} is outside profile {told.profile}")
            return False
        told.shape = tuple(shape)
        return True

    def _shape_of(self, context: object, name: str) -> tuple[int, ...]:
        return {"z": (-1,), "s": (2,)}.get(name, self.told(context).shape)

    def _addressed(self, context: object, name: str, address: int) -> bool:
        assert self.is_on_device(address) is (name != "s")
        self.told(context).addresses[name] = address
        return True

    def _allocates(self, context: object, name: str, allocator: object) -> bool:
        self.told(context).allocators[name] = allocator
        return True

    def _run(self, context: object, stream: int) -> bool:
        self.ran_on.append((id(context), stream))
        told, count = self.told(context), int(np.prod(self.told(context).shape))
        if "z" in self.names and not self._room(told, count, stream):
            return False
        if "s" in self.names:
            lying(told.addresses["s"], 2, "int64")[:] = told.shape
        return self.double(told.addresses["x"], told.addresses["y"], count, stream)

    def double(self, x: int, y: int, count: int, stream: int) -> bool:
        """Have a stream write the doubles of so many numbers; tell whether it takes that."""
        source, goal = lying(x, count, "float32"), lying(y, count, "float32")

        def kernel() -> None:
            goal[:] = 2 * source
            self.library.clock_ms += COMPUTE_MS

        return self.library.put(stream, kernel) == 0

    def _room(self, told: Context, count: int, stream: int) -> bool:
        """Wait for the input, and ask for as much room as it takes."""
        if self.stream_waits(stream):
            self.say("operation not permitted when stream is capturing")
            return False
        x, allocator = lying(told.addresses["x"], count, "float32"), told.allocators["z"]
        found = x[x > 0]
        address = allocator.reallocate_output_async("z", 0, found.nbytes, 256, stream)
        if not address:
            self.say("the allocator gave no room")
            return False
        lying(address, found.size, "float32")[:] = found
        allocator.notify_shape("z", (found.size,))
        return True

    def is_on_device(self, address: int) -> bool:
        """Tell whether that is an address on the device."""
        return address in self.library.device

    def stream_waits(self, stream: int) -> bool:
        """Wait for a stream as the runtime does inside; tell whether that spoilt a capture."""
        capture = self.library.streams[stream]
        if capture is not None:
            capture.spoilt = True
        return capture is not None


@cache
def recorded(runtime: str) -> dict[str, Any]:
    """Return the API of what is needed to run an engine: recorded, or read off the bindings."""
    if runtime != RTX:
        told = description(runtime)
        return {name: told[name] for name in NEEDED}
    bindings = importlib.import_module("tensorrt_rtx_bindings")
    names = (*NEEDED, *ONLY_RTX, "Builder", "ComputeCapability", "IHostMemory")
    return {name: described(getattr(bindings, name)) for name in names}


def lying(address: int, count: int, kind: str) -> Array:
    """Return what lies at an address."""
    size = count * np.dtype(kind).itemsize
    found: Array = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address)).view(kind)
    return found
