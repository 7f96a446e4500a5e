"""What runs and times TensorRT's engines, on a real GPU; TensorRT itself is a stand-in.

Behind its recorded API is a kernel that doubles. So streams, memory, events and graphs are the
GPU's own, and what TensorRT does with them is not asked here.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.contract.backends.trt_api.engines import HERE
from tests.gpu.doubling import MOST, OnGpu
from workers.backends.base import NotOnDevice, RunTimes
from workers.measurement.device import open_on_device

pytestmark = pytest.mark.gpu
RUNS = 20
KEPT = 2 << 20
"""The driver takes room in such steps and may keep one; a stream that is not ended costs one."""
Array = np.ndarray[Any, Any]


@pytest.fixture(params=HERE)
def behind(request: pytest.FixtureRequest) -> OnGpu:
    try:
        return OnGpu(request.param, "ys")
    except NotOnDevice as error:
        pytest.skip(f"not run: needs an NVIDIA GPU ({error})")
    except ImportError as error:
        pytest.skip(f"not run: {request.param} does not load here ({error})")


def x(n: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, 4), "float32")


def there(device: Any, like: Array) -> Array:  # noqa: ANN401 - what is on the device
    """Return what lies where the output of the last run was copied to."""
    found = ctypes.string_at(device.host_outputs()["y"], like.nbytes)
    return np.frombuffer(found, "float32").reshape(like.shape)


def test_an_engine_is_run_on_what_it_is_fed_at_every_shape(behind: OnGpu, tmp_path: Path) -> None:
    runner = behind.load(tmp_path)
    for n in (1, 3, 3, MOST // 16, 2, MOST):
        y, s = runner.run({"x": x(n, n)})
        assert np.array_equal(y, 2 * x(n, n))  # type: ignore[arg-type]
        assert list(s) == [n, 4]  # type: ignore[arg-type]


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_the_parts_of_a_run_are_timed_apart(
    behind: OnGpu, tmp_path: Path, *, cuda_graph: bool
) -> None:
    runner, middles = behind.load(tmp_path), []
    for n in (4, MOST // 4, MOST):
        fed = x(n, n)
        device = runner.on_device({"x": fed}, cuda_graph=cuda_graph)
        assert device.cuda_graph is cuda_graph
        runs = [device.run() for _ in range(RUNS)]
        assert np.array_equal(there(device, fed), 2 * fed)
        middles.append(RunTimes(*np.median([list(vars(row).values()) for row in runs], axis=0)))
    sys.stdout.write("".join(f"\n  {row}" for row in middles) + "\n")
    small, large, largest = middles
    assert 0 < small.h2d < large.h2d < largest.h2d
    assert 0 < small.d2h < large.d2h < largest.d2h
    # Behind a short copy the GPU waits for the host, which is in the compute time, as in trtexec.
    assert 0 < large.compute < largest.compute
    assert small.compute > 0


def test_what_cannot_be_captured_is_timed_without_a_graph(behind: OnGpu, tmp_path: Path) -> None:
    runner, fed = behind.load(tmp_path), x(1000)
    behind.waits = True

    opened = open_on_device(runner, {"x": fed}, cuda_graph=True)

    sys.stdout.write(f"{opened.notes}\n")
    assert opened.runner is not None
    assert not opened.runner.cuda_graph
    assert "no CUDA graph could be made of it" in opened.notes[0]
    opened.runner.run()
    assert np.array_equal(there(opened.runner, fed), 2 * fed)


def test_several_streams_run_at_once_each_on_its_own(behind: OnGpu, tmp_path: Path) -> None:
    runner = behind.load(tmp_path)
    fed = [x(MOST // 8, seed) for seed in range(4)]
    bound = [runner.bound({"x": each}) for each in fed]
    right: list[bool] = []

    def work(at: int) -> None:
        for _ in range(RUNS):
            found: Any = bound[at]()
            right.append(np.array_equal(found[0], 2 * fed[at]))

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * RUNS * 4


def test_all_memory_is_given_back_on_every_road(behind: OnGpu, tmp_path: Path) -> None:
    def all_roads() -> None:
        runner, fed = behind.load(tmp_path), {"x": x(MOST)}
        runner.run(fed)
        runner.bound(fed)()
        runner.on_device(fed, cuda_graph=True).run()
        behind.waits = True
        with pytest.raises(NotOnDevice):
            runner.on_device(fed, cuda_graph=True)
        behind.waits = False

    all_roads()  # what the driver itself keeps from the first time on is no matter
    before = behind.free_bytes()
    for _ in range(3):
        all_roads()
    assert behind.free_bytes() >= before - KEPT
