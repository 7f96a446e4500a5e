"""An engine of TensorRT or TensorRT-RTX is timed on its device by the parts that trtexec tells.

As in ``test_trt_running``, behind recorded APIs and the stand-in for CUDA's driver.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from enginefarm.errors import JobFailed
from tests.contract.backends.test_trt_running import QUICK, gone, x
from tests.contract.backends.trt_api.engines import COMPUTE_MS, HERE, Behind
from tests.unit.workers.measurement.test_timing import Sink
from workers.backends.base import NotOnDevice, RunsOnDevice
from workers.measurement.device import open_on_device, time_on_device

GRAPHS = [False, True]
pytestmark = pytest.mark.parametrize("runtime", HERE)


@pytest.mark.parametrize("cuda_graph", GRAPHS)
def test_on_the_device_the_parts_of_a_run_are_timed_apart(
    tmp_path: Path, runtime: str, *, cuda_graph: bool
) -> None:
    behind = Behind(runtime)
    runner = behind.load(tmp_path)
    assert isinstance(runner, RunsOnDevice)
    fed = x(4)

    device = runner.on_device({"x": fed}, cuda_graph=cuda_graph)
    ran, replayed = len(behind.ran_on), behind.library.launched
    told = [device.run() for _ in range(3)]

    copy_ms = fed.nbytes * 1e-6
    for row in told:
        assert row.h2d == pytest.approx(copy_ms, rel=1e-3)
        assert row.compute == pytest.approx(COMPUTE_MS, rel=1e-5)
        assert row.d2h == pytest.approx(copy_ms, rel=1e-3)
        assert row.enqueue > 0
    assert device.cuda_graph is cuda_graph
    # A graph is launched and the runtime is left alone; else it is asked each time.
    assert len(behind.ran_on) - ran == (0 if cuda_graph else 3)
    assert behind.library.launched - replayed == (3 if cuda_graph else 0)
    there = device.host_outputs()["y"]
    assert np.array_equal(np.frombuffer(ctypes.string_at(there, fed.nbytes), "f"), 2 * fed.ravel())
    del device, runner
    assert gone(behind) == {}


def test_before_it_is_captured_it_has_run_once_on_the_same_stream(
    tmp_path: Path, runtime: str
) -> None:
    behind = Behind(runtime)
    runner = behind.load(tmp_path)
    capturing: list[bool] = []
    run = behind.api.acts["IExecutionContext.execute_async_v3"]

    def watched(context: object, stream: int) -> bool:
        capturing.append(behind.library.streams[stream] is not None)
        return bool(run(context, stream))

    behind.does(IExecutionContext__execute_async_v3=watched)
    device = runner.on_device({"x": x(4)}, cuda_graph=True)
    assert capturing == [False, True]
    assert device.cuda_graph
    assert len(set(behind.ran_on)) == 1
    # The runner's own context and stream are others, and go on beside it.
    (y,) = runner.run({"x": x(2)})
    assert np.array_equal(y, 2 * x(2))  # type: ignore[arg-type]
    device.run()
    assert len({stream for _, stream in behind.ran_on}) == 2


def test_the_farm_has_trtexecs_numbers_of_it(tmp_path: Path, runtime: str) -> None:
    behind = Behind(runtime)
    runner = behind.load(tmp_path)
    opened = open_on_device(runner, {"x": x(4)}, cuda_graph=True)
    found = time_on_device(opened, QUICK, time.perf_counter, Sink())
    assert found is not None
    times, _ = found
    assert times.cuda_graph
    assert times.gpu_compute_ms.p50 == pytest.approx(COMPUTE_MS, rel=1e-5)
    assert times.latency_ms.p50 > times.gpu_compute_ms.p50
    assert not [note for note in times.notes if "CUDA graph" in note]


def spoils(behind: Behind) -> None:
    """Let the runtime do, in a capture, what none allows."""
    run = behind.api.acts["IExecutionContext.execute_async_v3"]

    def watched(context: object, stream: int) -> bool:
        if behind.stream_waits(stream):
            behind.say("operation not permitted when stream is capturing")
            return False
        return bool(run(context, stream))

    behind.does(IExecutionContext__execute_async_v3=watched)


def unheard(behind: Behind) -> None:
    """Let the runtime spoil a capture and say that all is well."""
    run = behind.api.acts["IExecutionContext.execute_async_v3"]

    def watched(context: object, stream: int) -> bool:
        return behind.stream_waits(stream) or bool(run(context, stream))

    behind.does(IExecutionContext__execute_async_v3=watched)


def unmade(behind: Behind) -> None:
    """Let the driver make no graph of it."""
    behind.library.fails["cuGraphInstantiateWithFlags"] = 801


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (spoils, "not permitted when stream is capturing"),
        (unheard, "cuStreamEndCapture answered 901"),
        (unmade, "cuGraphInstantiateWithFlags answered 801"),
    ],
)
def test_what_cannot_be_captured_is_timed_without_and_says_why(
    tmp_path: Path, runtime: str, fault: Callable[[Behind], None], says: str
) -> None:
    behind = Behind(runtime)
    runner = behind.load(tmp_path)
    fault(behind)

    opened = open_on_device(runner, {"x": x(4)}, cuda_graph=True)

    assert opened.runner is not None
    assert not opened.runner.cuda_graph
    assert opened.runner.run().compute == pytest.approx(COMPUTE_MS, rel=1e-5)
    (note,) = opened.notes
    assert note.startswith("no CUDA graph could be made of it: ")
    assert says in note
    # What the attempt had is given back: here are those of one engine on the device.
    assert len(behind.library.streams) == 2
    assert gone(behind) == {"device": 2, "pinned": 2, "events": 4}
    del opened, runner
    assert gone(behind) == {}


@pytest.mark.parametrize("cuda_graph", GRAPHS)
def test_outputs_whose_size_depends_on_data_are_not_on_the_device(
    tmp_path: Path, runtime: str, *, cuda_graph: bool
) -> None:
    behind = Behind(runtime, outputs="yz")
    runner = behind.load(tmp_path)
    opened = open_on_device(runner, {"x": x(4)}, cuda_graph=cuda_graph)
    assert opened.runner is None
    assert opened.reason == "the size of z depends on data"
    assert gone(behind) == {}


def test_outputs_on_the_host_are_no_copies(tmp_path: Path, runtime: str) -> None:
    behind = Behind(runtime, outputs="ys")
    device = behind.load(tmp_path).on_device({"x": x(4)}, cuda_graph=True)
    assert device.run().d2h == pytest.approx(x(4).nbytes * 1e-6, rel=1e-3)
    assert set(device.host_outputs()) == {"y"}


def test_an_engine_that_does_not_run_on_the_device_has_a_reason(
    tmp_path: Path, runtime: str
) -> None:
    behind = Behind(runtime)
    runner = behind.load(tmp_path)
    behind.does(IExecutionContext__execute_async_v3=lambda *_: False)
    opened = open_on_device(runner, {"x": x(4)}, cuda_graph=True)
    assert opened.runner is None
    assert str(opened.reason).startswith("it does not run with its data on the device: The runtime")
    with pytest.raises(NotOnDevice) as refused:
        runner.on_device({"x": x(4)}, cuda_graph=False)
    assert gone(behind) == {}  # though who was told still has the traceback
    assert refused.value.__cause__ is not None


@pytest.mark.parametrize("call", ["cuMemAlloc_v2", "cuMemHostAlloc"])
def test_a_device_without_room_is_the_nodes_fault(tmp_path: Path, runtime: str, call: str) -> None:
    behind = Behind(runtime)
    runner = behind.load(tmp_path)
    behind.library.fails[call] = 2
    with pytest.raises(JobFailed) as refused:
        runner.on_device({"x": x(4)}, cuda_graph=True)
    assert (refused.value.code, refused.value.blame) == ("out_of_memory", "node")
    assert gone(behind) == {}


def test_a_device_that_breaks_while_it_is_timed_is_a_failure(tmp_path: Path, runtime: str) -> None:
    behind = Behind(runtime)
    device = behind.load(tmp_path).on_device({"x": x(4)}, cuda_graph=True)
    behind.library.fails["cuGraphLaunch"] = 700
    with pytest.raises(JobFailed, match="cuGraphLaunch answered 700") as refused:
        device.run()
    assert refused.value.code == "engine_run_failed"


@pytest.mark.parametrize("call", ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"])
def test_a_device_that_breaks_says_what_it_said_first(
    tmp_path: Path, runtime: str, call: str
) -> None:
    behind = Behind(runtime)
    runner = behind.load(tmp_path)
    for broken in (call, "cuMemFree_v2", "cuMemFreeHost", "cuEventDestroy_v2"):
        behind.library.fails[broken] = 700
    with pytest.raises(NotOnDevice, match=f"{call} answered 700"):
        runner.on_device({"x": x(4)}, cuda_graph=False)
    with pytest.raises(JobFailed, match=f"{call} answered 700"):
        runner.run({"x": x(4)})
