"""A person's own script that times an engine in ONNX Runtime on a GPU. It imports nothing of ours.

    python plain.py ENGINE THREADS SECONDS

prints, as JSON, the fastest decile of ``session.run`` from arrays to arrays, and the median of what
CUDA events say of replays of a CUDA graph, each between a copy in and a copy out, in ms. Inputs are
read from ENGINE.npz.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime as ort

Arrays = dict[str, Any]
PROVIDERS = ["CUDAExecutionProvider", "CPUExecutionProvider"]


def until(seconds: float, once: Callable[[], float]) -> list[float]:
    """Call for so long, after a warm-up of a fifth of it; return what the calls return."""
    for _warming in (True, False):
        found, end = [], time.perf_counter() + seconds / (5 if _warming else 1)
        while time.perf_counter() < end:
            found.append(once())
    return found


def whole(session: ort.InferenceSession, feeds: Arrays, seconds: float) -> float:
    """Return the fastest decile of runs from arrays to arrays."""

    def run() -> float:
        start = time.perf_counter()
        session.run(None, feeds)
        return (time.perf_counter() - start) * 1000

    return statistics.quantiles(until(seconds, run), n=10)[0]


class Stream:
    """A stream, two events on it, and pinned memory beside it."""

    def __init__(self) -> None:
        """Make them in the context that the runtime has made."""
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.stream, self.events = ctypes.c_void_p(), [ctypes.c_void_p() for _ in range(2)]
        self.cuda.cuStreamCreate(ctypes.byref(self.stream), 1)
        for event in self.events:
            self.cuda.cuEventCreate(ctypes.byref(event), 0)

    def pinned(self, size: int) -> ctypes.c_void_p:
        """Return pinned memory."""
        made = ctypes.c_void_p()
        self.cuda.cuMemHostAlloc(ctypes.byref(made), ctypes.c_size_t(size), 0)
        return made

    def copy(self, call: str, to: object, source: object, size: int) -> None:
        """Copy on the stream."""
        getattr(self.cuda, call)(to, source, ctypes.c_size_t(size), self.stream)

    def pass_event(self, number: int) -> None:
        """Record an event."""
        self.cuda.cuEventRecord(self.events[number], self.stream)

    def between(self) -> float:
        """Return the ms between the events, once all is done."""
        took = ctypes.c_float()
        self.cuda.cuStreamSynchronize(self.stream)
        self.cuda.cuEventElapsedTime(ctypes.byref(took), *self.events)
        return took.value


def graph(engine: str, options: ort.SessionOptions, feeds: Arrays, like: list[Any]) -> Any:  # noqa: ANN401 - a callable
    """Return a call that copies in, replays the graph, copies out, and tells the graph's ms."""
    stream, quiet = Stream(), ort.RunOptions()
    told = [{"user_compute_stream": str(stream.stream.value), "enable_cuda_graph": "1"}, {}]
    session = ort.InferenceSession(engine, options, providers=PROVIDERS, provider_options=told)
    quiet.add_run_config_entry("disable_synchronize_execution_providers", "1")
    binding, ins, outs = session.io_binding(), [], []
    for name, array in feeds.items():
        value = ort.OrtValue.ortvalue_from_numpy(array, "cuda", 0)
        binding.bind_ortvalue_input(name, value)
        ins.append((value, ctypes.c_void_p(value.data_ptr()), stream.pinned(array.nbytes), array))
        ctypes.memmove(ins[-1][2], array.ctypes.data, array.nbytes)
    for row, array in zip(session.get_outputs(), like, strict=True):
        value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), array.dtype, "cuda", 0)
        binding.bind_ortvalue_output(row.name, value)
        outs.append((value, ctypes.c_void_p(value.data_ptr()), stream.pinned(array.nbytes), array))

    def once() -> float:
        for _, device, host, array in ins:
            stream.copy("cuMemcpyHtoDAsync_v2", device, host, array.nbytes)
        stream.pass_event(0)
        session.run_with_iobinding(binding, quiet)
        stream.pass_event(1)
        for _, device, host, array in outs:
            stream.copy("cuMemcpyDtoHAsync_v2", host, device, array.nbytes)
        return stream.between()

    return once


def main(engine: str, threads: int, seconds: float) -> None:
    """Time it both ways."""
    ort.preload_dlls()
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    feeds = dict(np.load(engine + ".npz"))
    session = ort.InferenceSession(engine, options, providers=PROVIDERS)
    found = {"whole": whole(session, feeds, seconds)}
    once = graph(engine, options, feeds, session.run(None, feeds))
    found["compute"] = statistics.median(until(seconds, once))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
