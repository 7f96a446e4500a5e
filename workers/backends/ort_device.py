"""ONNX Runtime with inputs and outputs on the GPU, timed step by step as trtexec does.

The session is given our stream, so that events on it stand before and after all that it does.
Buffers are allocated once and bound: nothing is allocated while it is measured, and a CUDA graph
finds the same addresses each time.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnxruntime as ort

from workers.backends.base import Array, NotOnDevice, RunTimes
from workers.backends.cuda_driver import CudaDriver

CUDA = "cuda"
RUNS_TO_CAPTURE = 3
"""The runtime runs a graph once or twice before it captures it."""
MS = 1000.0
NUMBERS = "fiub"
OpenWith = Callable[[dict[str, str]], ort.InferenceSession]


@dataclass(frozen=True)
class _Buffer:
    """One input or output: its address on the device, in pinned memory, and its size in bytes."""

    device: int
    host: int
    size: int


class OrtDeviceRunner:
    """See :class:`workers.backends.base.DeviceRunner`."""

    def __init__(
        self,
        open_with: OpenWith,
        feeds: Mapping[str, Array],
        outputs: Mapping[str, Array | None],
        *,
        cuda_graph: bool,
    ) -> None:
        """Open a session on a stream of ours, bind these inputs and room for outputs like these.

        ``outputs`` came of the same inputs. The session is run until a graph would be captured.

        Raises:
            NotOnDevice: the session or its data does not allow it.
        """
        self.cuda_graph = cuda_graph
        self._cuda = CudaDriver()
        self._session = open_with(provider_options(self._cuda.stream, cuda_graph=cuda_graph))
        self._options = ort.RunOptions()
        # We wait for the stream ourselves: what returns early is the host's share of a run.
        self._options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        self._events = [self._cuda.event() for _ in range(4)]
        self._binding = self._session.io_binding()
        self._values: list[ort.OrtValue] = []
        self._inputs = [self._bind_input(name, array) for name, array in feeds.items()]
        self._outputs = [self._bind_output(name, array) for name, array in outputs.items()]
        try:
            for _ in range(RUNS_TO_CAPTURE if cuda_graph else 1):
                self.run()
        except Exception as error:
            raise NotOnDevice(f"it does not run with its data on the device: {error}") from error

    def run(self) -> RunTimes:
        """Copy in, run and copy out on one stream, with an event at each border."""
        cuda, (start, before, after, end) = self._cuda, self._events
        cuda.record(start)
        for row in self._inputs:  # an empty tensor's copy is one of nothing
            cuda.to_device(row.device, row.host, row.size)
        cuda.record(before)
        began = time.perf_counter()
        self._session.run_with_iobinding(self._binding, self._options)
        enqueued = time.perf_counter()
        cuda.record(after)
        for row in self._outputs:
            cuda.to_host(row.host, row.device, row.size)
        cuda.record(end)
        cuda.wait(end)
        return RunTimes(
            h2d=cuda.elapsed_ms(start, before),
            enqueue=(enqueued - began) * MS,
            compute=cuda.elapsed_ms(before, after),
            d2h=cuda.elapsed_ms(after, end),
        )

    def outputs(self) -> list[Array]:
        """Return the outputs of the last run, in the order in which they were given."""
        found: list[Array] = [value.numpy() for value in self._values[len(self._inputs) :]]
        return found

    def host_outputs(self) -> list[int]:
        """Return where the outputs of the last run lie in the host's pinned memory."""
        return [row.host for row in self._outputs]

    def _bind_input(self, name: str, array: Array) -> _Buffer:
        if array.dtype.kind not in NUMBERS:
            raise NotOnDevice(f"the input {name} is of type {array.dtype}")
        whole = np.ascontiguousarray(array)
        value = ort.OrtValue.ortvalue_from_numpy(whole, CUDA, 0)
        self._binding.bind_ortvalue_input(name, value)
        buffer = self._buffer(value)
        ctypes.memmove(buffer.host, whole.ctypes.data, whole.nbytes)
        return buffer

    def _bind_output(self, name: str, like: Array | None) -> _Buffer:
        if like is None or like.dtype.kind not in NUMBERS:
            raise NotOnDevice(f"the output {name} is no tensor of numbers")
        value = ort.OrtValue.ortvalue_from_shape_and_type(list(like.shape), like.dtype, CUDA, 0)
        self._binding.bind_ortvalue_output(name, value)
        return self._buffer(value)

    def _buffer(self, value: ort.OrtValue) -> _Buffer:
        size = int(value.tensor_size_in_bytes())
        self._values.append(value)
        return _Buffer(int(value.data_ptr()) if size else 0, self._cuda.pinned(size), size)


def provider_options(stream: int, *, cuda_graph: bool) -> dict[str, str]:
    """Return what the CUDA provider is told, beside its defaults."""
    given = {"user_compute_stream": str(stream)}
    return given | ({"enable_cuda_graph": "1"} if cuda_graph else {})
