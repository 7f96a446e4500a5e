"""Run an engine of TensorRT-RTX on the GPU that is here, and keep what its first start compiles.

The runtime compiles an engine's kernels when it is first run. What that leaves is serialized at the
end, and may be given to the next start. Inputs and outputs are copied for each run, as a program
does that has its data on the host.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from enginefarm.errors import JobFailed
from enginefarm.state import Blame
from enginefarm.views import TensorView
from workers.backends.base import Array, NotOnDevice
from workers.backends.rtx_profiles import fitting
from workers.backends.trt.recording import Record, plain
from workers.diagnosis import shorten

SEVERAL = 2
_NUMPY = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BOOL": "bool",
    **{name: name.lower() for name in ("INT8", "INT32", "INT64", "UINT8")},
}


class Memory(Protocol):
    """What is used of CUDA's driver: :class:`workers.backends.cuda_driver.CudaDriver`."""

    stream: int

    def use(self) -> None:
        """Let this thread work on the device."""

    def allocated(self, size: int) -> int:
        """Return the address of so many bytes on the device."""

    def freed(self, address: int) -> None:
        """Give them back."""

    def to_device(self, device: int, host: int, size: int) -> None:
        """Have the stream copy to the device."""

    def to_host(self, host: int, device: int, size: int) -> None:
        """Have the stream copy to the host."""

    def finish(self) -> None:
        """Wait until the stream has done all."""


@dataclass(frozen=True)
class Runtime:
    """The runtime, imported, with its one logger, and the device's memory."""

    trt: ModuleType
    logger: Any
    record: Record
    memory: Memory
    another: Callable[[], Memory]
    """What opens one more stream on the device."""


class RtxRunner:
    """A runner that leaves a runtime cache, and whose engine several threads may run at once.

    See the protocols of ``workers.backends.base``.
    """

    threads = 0

    def __init__(self, runtime: Runtime, engine: Path, cache: bytes | None = None) -> None:
        """Open an engine, with a cache that an earlier start has left.

        Raises:
            JobFailed: the runtime does not open it (``engine_load_failed``), does not take the
                cache (``runtime_cache_refused``), or it has an input or output of a type that no
                array here has (``not_measurable_here``).
        """
        self._runtime, self._path = runtime, engine
        trt, said_before = runtime.trt, len(runtime.record.errors)
        self._opener = trt.Runtime(runtime.logger)
        self._engine = self._opener.deserialize_cuda_engine(engine.read_bytes())
        if self._engine is None:
            raise self._refused("does not open the engine", "engine_load_failed", said_before)
        config = self._engine.create_runtime_config()
        self._cache = config.create_runtime_cache()
        if cache is not None and not self._cache.deserialize(cache):
            raise self._refused("does not take the cache", "runtime_cache_refused", said_before)
        config.set_runtime_cache(self._cache)
        self._config = config
        self._context = self._started(said_before)
        views = [self._view(number) for number in range(self._engine.num_io_tensors)]
        self.inputs = [view for mode, view in views if mode == trt.TensorIOMode.INPUT]
        self.outputs = [view for mode, view in views if mode == trt.TensorIOMode.OUTPUT]

    def run(self, feeds: Mapping[str, Array]) -> list[Array | None]:
        """Copy in, run, copy out, and wait for the end.

        Raises:
            JobFailed: the runtime does not run it (``engine_run_failed``).
        """
        taken: list[int] = []
        try:
            self._suited(self._context, self._runtime.memory, feeds)
            for view in self.inputs:
                whole = np.ascontiguousarray(feeds[view.name], dtype=view.dtype)
                self._context.set_input_shape(view.name, whole.shape)
                self._copy_in(self._place(view.name, whole.nbytes, taken), whole)
            made = [_room_for(self._context, view) for view in self.outputs]
            places = [
                self._place(view.name, array.nbytes, taken)
                for view, array in zip(self.outputs, made, strict=True)
            ]
            if not self._context.execute_async_v3(self._runtime.memory.stream):
                raise self._refused("does not run the engine", "engine_run_failed", 0)
            for place, array in zip(places, made, strict=True):
                self._runtime.memory.to_host(array.ctypes.data, place, array.nbytes)
            self._runtime.memory.finish()
        except NotOnDevice as error:
            raise _not_here(str(error), "engine_run_failed") from error
        finally:
            for address in taken:
                self._runtime.memory.freed(address)
        return list(made)

    def bound(self, feeds: Mapping[str, Array]) -> Callable[[], object]:
        """Start the engine once more, on a stream of its own, with these inputs bound.

        Raises:
            JobFailed: the runtime does not start it (``engine_load_failed``), or there is no room.
        """
        context = self._started(len(self._runtime.record.errors))
        fed = {
            view.name: np.ascontiguousarray(feeds[view.name], dtype=view.dtype)
            for view in self.inputs
        }
        try:
            another = self._runtime.another()
            self._suited(context, another, fed)
            return RtxStream(context, another, fed, self.outputs, self._refused)
        except NotOnDevice as error:
            raise _not_here(str(error), "engine_run_failed") from error

    def _suited(self, context: Any, memory: Memory, feeds: Mapping[str, Array]) -> None:  # noqa: ANN401 - the runtime's class
        """Let a context run under the profile that fits the inputs, where there are several."""
        if self._engine.num_optimization_profiles < SEVERAL:
            return
        shapes = {view.name: np.shape(feeds[view.name]) for view in self.inputs}
        number = fitting(self._engine, shapes)
        if number == context.active_optimization_profile:
            return
        if not context.set_optimization_profile_async(number, memory.stream):
            raise self._refused(f"does not take profile {number}", "engine_run_failed", 0)
        memory.finish()

    def _started(self, said_before: int) -> Any:  # noqa: ANN401 - the runtime's class
        context = self._engine.create_execution_context(self._config)
        if context is None:
            raise self._refused("does not start the engine", "engine_load_failed", said_before)
        return context

    def runtime_cache(self) -> bytes:
        """Return what has been compiled so far."""
        return bytes(memoryview(self._cache.serialize()))

    def started_again(self, cache: bytes) -> RtxRunner | None:
        """Return the engine opened once more, with a cache; None if that is not taken."""
        try:
            return RtxRunner(self._runtime, self._path, cache)
        except JobFailed as error:
            if error.code == "runtime_cache_refused":
                return None
            raise

    def _view(self, number: int) -> tuple[Any, TensorView]:
        name = self._engine.get_tensor_name(number)
        kind = _NUMPY.get(self._engine.get_tensor_dtype(name).name)
        if kind is None:
            why = f"{name} is of type {self._engine.get_tensor_dtype(name).name}"
            raise _not_here(why, "not_measurable_here")
        shape = [None if dim < 0 else int(dim) for dim in self._engine.get_tensor_shape(name)]
        return self._engine.get_tensor_mode(name), TensorView(name=name, dtype=kind, shape=shape)

    def _place(self, name: str, size: int, taken: list[int]) -> int:
        address = self._runtime.memory.allocated(size)
        taken.append(address)
        self._context.set_tensor_address(name, address)
        return address

    def _copy_in(self, place: int, array: Array) -> None:
        self._runtime.memory.to_device(place, array.ctypes.data, array.nbytes)
        # What is copied is the caller's, and may be gone before the stream comes to it.
        self._runtime.memory.finish()

    def _refused(self, what: str, code: str, said_before: int) -> JobFailed:
        said = [plain(text) for text in self._runtime.record.errors[said_before:]]
        why = shorten(said[-1], 300) if said else "it gives no reason"
        return _not_here(f"The runtime {what}: {why}", code)


class RtxStream:
    """A started engine with a stream, inputs and outputs of its own, to be run by one thread."""

    def __init__(
        self,
        context: Any,  # noqa: ANN401 - the runtime's class
        memory: Memory,
        fed: Mapping[str, Array],
        outputs: Sequence[TensorView],
        refused: Callable[[str, str, int], JobFailed],
    ) -> None:
        """Take the memory that it needs, and give it back when nobody has the stream any more."""
        self._context, self._memory, self._refused = context, memory, refused
        taken: list[int] = []
        weakref.finalize(self, _give_back, memory, taken)
        self._inputs = [(self._place(name, array, taken), array) for name, array in fed.items()]
        for name, array in fed.items():
            context.set_input_shape(name, array.shape)
        made = {view.name: _room_for(context, view) for view in outputs}
        self._outputs = [(self._place(name, array, taken), array) for name, array in made.items()]

    def __call__(self) -> list[Array]:
        """Copy in, run, copy out, and wait for the end of this stream.

        Raises:
            JobFailed: the runtime does not run it (``engine_run_failed``).
        """
        memory = self._memory
        memory.use()
        for place, array in self._inputs:
            memory.to_device(place, array.ctypes.data, array.nbytes)
        if not self._context.execute_async_v3(memory.stream):
            raise self._refused("does not run the engine", "engine_run_failed", 0)
        for place, array in self._outputs:
            memory.to_host(array.ctypes.data, place, array.nbytes)
        memory.finish()
        return [array for _, array in self._outputs]

    def _place(self, name: str, array: Array, taken: list[int]) -> int:
        address = self._memory.allocated(array.nbytes)
        taken.append(address)
        self._context.set_tensor_address(name, address)
        return address


def _give_back(memory: Memory, taken: list[int]) -> None:
    for address in taken:
        memory.freed(address)


def _room_for(context: Any, view: TensorView) -> Array:  # noqa: ANN401 - the runtime's class
    shape = tuple(int(dim) for dim in context.get_tensor_shape(view.name))
    if any(dim < 0 for dim in shape):
        raise _not_here(f"the size of {view.name} depends on data", "not_measurable_here")
    return np.empty(shape, dtype=view.dtype)


def _not_here(why: str, code: str) -> JobFailed:
    return JobFailed(
        "The engine cannot be measured on this node.",
        blame=Blame.NODE,
        code=code,
        why=f"{why}.",
        fix="Read the job's log; try a node with another driver or GPU.",
    )
