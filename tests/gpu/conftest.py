"""What needs an NVIDIA GPU. Where there is none, each test says so and is not run.

On a machine with a GPU and ``onnxruntime-gpu``, without the farm's services:

    python -m pytest -c /dev/null --rootdir . --confcutdir tests/gpu tests/gpu
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.contract.backends.bench import Bench, found

HOG = """
import ctypes, sys, time
import onnxruntime
onnxruntime.preload_dlls()
cuda = ctypes.CDLL("libcudart.so.13")
free, total, place = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_void_p()
left, step = int(sys.argv[1]), 1 << 33
while step >= 1 << 20:
    if cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)):
        sys.exit("the GPU's memory cannot be read")
    if free.value - left < step or cuda.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(step)):
        step //= 2
print(free.value, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Return a bench for ONNX Runtime on the GPU."""
    backend = next((b for b in found().backends if b.name == "onnxruntime"), None)
    archs = [arch for arch in backend.measures if arch != "cpu"] if backend else []
    if backend is None or not archs:
        pytest.skip("not run: needs an NVIDIA GPU and onnxruntime-gpu")
    return Bench(backend, archs[0], tmp_path_factory.mktemp("gpu"))


@pytest.fixture
def crowd(bench: Bench) -> Iterator[Callable[[int], None]]:
    """Return a way to leave only so many bytes of the GPU's memory free."""
    hogs: list[subprocess.Popen[str]] = []

    def leave(free: int) -> None:
        hogs.append(
            subprocess.Popen(
                [sys.executable, "-c", HOG, str(free)], stdout=subprocess.PIPE, text=True
            )
        )
        stdout = hogs[-1].stdout
        assert stdout is not None
        assert int(stdout.readline()) < free + (64 << 20)

    yield leave
    for hog in hogs:
        hog.kill()
        hog.communicate()
