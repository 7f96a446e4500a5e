"""A person's own script that times an engine in ONNX Runtime on a GPU. It imports nothing of ours.

    python plain.py ENGINE THREADS SECONDS

prints, as JSON, the median time of ``session.run`` and, with the data on the device, of what CUDA
events say of the same engine. Inputs are read from ENGINE.npz.
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


def until(seconds: float, once: Callable[[], float]) -> list[float]:
    """Call for so long, after a warm-up of a fifth of it; return what the calls return."""
    for _warming in (True, False):
        found, end = [], time.perf_counter() + seconds / (5 if _warming else 1)
        while time.perf_counter() < end:
            found.append(once())
    return found


def whole(session: ort.InferenceSession, feeds: Arrays, seconds: float) -> float:
    """Return the median ms of a run from arrays to arrays."""

    def run() -> float:
        start = time.perf_counter()
        session.run(None, feeds)
        return (time.perf_counter() - start) * 1000

    return statistics.median(until(seconds, run))


def bound(session: ort.InferenceSession, feeds: Arrays, like: list[Any]) -> ort.IOBinding:
    """Bind inputs and room for outputs on the device."""
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array, "cuda", 0))
    for row, array in zip(session.get_outputs(), like, strict=True):
        value = ort.OrtValue.ortvalue_from_shape_and_type(list(array.shape), array.dtype, "cuda", 0)
        binding.bind_ortvalue_output(row.name, value)
    return binding


def main(engine: str, threads: int, seconds: float) -> None:
    """Time it both ways."""
    ort.preload_dlls()
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    feeds = dict(np.load(engine + ".npz"))
    session = ort.InferenceSession(engine, options, providers=providers)
    found = {"whole": whole(session, feeds, seconds)}

    cuda, took = ctypes.CDLL("libcuda.so.1"), ctypes.c_float()
    stream, events = ctypes.c_void_p(), [ctypes.c_void_p() for _ in range(2)]
    cuda.cuStreamCreate(ctypes.byref(stream), 1)
    for event in events:
        cuda.cuEventCreate(ctypes.byref(event), 0)
    like = session.run(None, feeds)
    told = [{"user_compute_stream": str(stream.value)}, {}]
    session = ort.InferenceSession(engine, options, providers=providers, provider_options=told)
    binding, quiet = bound(session, feeds, like), ort.RunOptions()
    quiet.add_run_config_entry("disable_synchronize_execution_providers", "1")

    def on_device() -> float:
        cuda.cuEventRecord(events[0], stream)
        session.run_with_iobinding(binding, quiet)
        cuda.cuEventRecord(events[1], stream)
        cuda.cuEventSynchronize(events[1])
        cuda.cuEventElapsedTime(ctypes.byref(took), *events)
        return took.value

    found["compute"] = statistics.median(until(seconds, on_device))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
