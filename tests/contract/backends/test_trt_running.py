"""Engines of TensorRT and TensorRT-RTX are run, and timed, by the calls that their bindings have.

The APIs were read off the real bindings; what runs behind them is made up, on a stand-in for CUDA's
driver that the tests of ``tests/gpu`` hold against a real one. No runtime of NVIDIA has run this.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enginefarm.compile_options import CompileOptions
from enginefarm.errors import JobFailed
from enginefarm.spec import BenchmarkOptions
from tests.contract.backends.trt_api.described import VERSIONS
from tests.contract.backends.trt_api.engines import HERE, HOST_CODE, RTX, Behind
from tests.unit.workers.measurement.test_timing import Sink
from workers.backends.base import NotOnDevice, RunsConcurrently
from workers.backends.tensorrt import TensorRT
from workers.measurement.conditions import Conditions
from workers.measurement.streams import sweep_streams

QUICK = BenchmarkOptions(
    warmup_ms=0, min_iterations=10, min_duration_ms=10, max_duration_ms=500, streams=[1, 2, 4]
)
pytestmark = pytest.mark.parametrize("runtime", HERE)


def x(n: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((n, 4)).astype("float32")


def gone(behind: Behind) -> dict[str, int]:
    """Return what is not given back when nobody has an engine any more."""
    return behind.library.held


def test_an_engine_is_run_on_what_it_is_fed(tmp_path: Path, runtime: str) -> None:
    behind = Behind(runtime)
    runner = behind.load(tmp_path)
    assert [(row.name, row.dtype, row.shape) for row in runner.inputs] == [
        ("x", "float32", [None, 4])
    ]
    assert [row.name for row in runner.outputs] == ["y"]
    kept = []
    for n in (1, 3, 3, 8):
        (y,) = runner.run({"x": x(n, n)})
        kept.append((y, 2 * x(n, n)))
    assert all(np.array_equal(y, right) for y, right in kept if y is not None)
    assert behind.library.held == {"device": 2}
    del runner
    assert gone(behind) == {}


def test_outputs_on_the_host_and_of_sizes_that_only_a_run_tells_are_there(
    tmp_path: Path, runtime: str
) -> None:
    behind = Behind(runtime, outputs="ysz")
    runner = behind.load(tmp_path)
    for n in (8, 2, 4, 4):
        fed = x(n, n)
        y, s, z = runner.run({"x": fed})
        assert np.array_equal(y, 2 * fed)  # type: ignore[arg-type]
        assert list(s) == [n, 4]  # type: ignore[arg-type]
        assert np.array_equal(z, fed[fed > 0])  # type: ignore[arg-type]
    (_, _, none) = runner.run({"x": np.zeros((4, 4), "float32")})
    assert none is not None
    assert none.shape == (0,)
    for positive in (1, 16, 3):  # as many times as there must be more room
        fed = np.repeat([1.0, -1.0], [positive, 16 - positive]).astype("float32").reshape(4, 4)
        (_, _, z) = runner.run({"x": fed})
        assert np.array_equal(z, np.ones(positive))  # type: ignore[arg-type]
        assert behind.library.held == {"device": 3}
    del runner
    assert gone(behind) == {}


def test_a_size_that_the_runtime_does_not_tell_is_not_that_of_the_run_before(
    tmp_path: Path, runtime: str
) -> None:
    behind = Behind(runtime, outputs="yz")
    runner = behind.load(tmp_path)
    runner.run({"x": x(4)})
    behind.does(IExecutionContext__execute_async_v3=lambda *_: True)
    with pytest.raises(JobFailed, match="does not tell the size of z"):
        runner.run({"x": x(4)})


def test_there_may_be_no_room_for_an_output_that_grows(tmp_path: Path, runtime: str) -> None:
    behind = Behind(runtime, outputs="yz")
    behind.library.capacity = 2 * 16 * 4
    runner = behind.load(tmp_path)
    with pytest.raises(JobFailed, match="out of memory"):
        runner.run({"x": np.ones((4, 4), "float32")})
    assert gone(behind) == {}
    behind.library.capacity *= 2
    assert runner.run({"x": np.ones((4, 4), "float32")})


@pytest.mark.parametrize(
    ("acts", "code", "says"),
    [
        ({"Runtime__deserialize_cuda_engine": lambda *_: None}, "engine_load_failed", "open"),
        ({"ICudaEngine__create_execution_context": lambda *_: None}, "engine_load_failed", "start"),
        ({"IExecutionContext__execute_async_v3": lambda *_: False}, "engine_run_failed", "run the"),
        ({"IExecutionContext__set_input_shape": lambda *_: False}, "engine_run_failed", "x as"),
        (
            {"IExecutionContext__set_tensor_address": lambda *_: False},
            "engine_run_failed",
            "memory for x",
        ),
    ],
)
def test_what_the_runtime_refuses_is_a_failure_that_says_so(
    tmp_path: Path, runtime: str, acts: dict[str, Callable[..., Any]], code: str, says: str
) -> None:
    behind = Behind(runtime)
    behind.does(**acts)
    with pytest.raises(JobFailed) as refused:
        behind.load(tmp_path).run({"x": x(1)})
    assert refused.value.code == code
    assert says in str(refused.value.why)
    assert gone(behind) == {}


@pytest.mark.parametrize(
    ("says", "code"),
    [
        ("Error Code 1: Cuda Runtime (out of memory)", "out_of_memory"),
        ("Error Code 2: Internal Error (Assertion failed)", "engine_load_failed"),
    ],
)
def test_why_an_engine_is_not_opened_is_known_by_the_runtimes_words(
    tmp_path: Path, runtime: str, says: str, code: str
) -> None:
    behind = Behind(runtime)

    def refuse(*_: object) -> None:
        for text in (says, "Engine deserialization failed."):
            behind.say(text)

    behind.does(Runtime__deserialize_cuda_engine=refuse)
    with pytest.raises(JobFailed) as refused:
        behind.load(tmp_path)
    assert (refused.value.code, refused.value.blame) == (code, "node")
    assert says[:40] in refused.value.why


def test_shapes_outside_every_profile_are_refused_in_the_runtimes_words(
    tmp_path: Path, runtime: str
) -> None:
    behind = Behind(runtime)
    runner = behind.load(tmp_path)
    for n in (9, 9, 12):  # the runtime says the same twice
        with pytest.raises(JobFailed, match="outside profile 0") as refused:
            runner.run({"x": x(n)})
        assert refused.value.code == "engine_run_failed"
    (y,) = runner.run({"x": x(8)})
    assert np.array_equal(y, 2 * x(8))  # type: ignore[arg-type]
    with pytest.raises(NotOnDevice, match="outside profile 0"):
        runner.on_device({"x": x(9)}, cuda_graph=False)
    with pytest.raises(JobFailed, match="outside profile 0"):
        runner.bound({"x": x(9)})
    assert len(behind.library.streams) == 1


def test_each_run_is_made_under_the_profile_that_fits_its_shapes(
    tmp_path: Path, runtime: str
) -> None:
    behind = Behind(runtime, profiles=((1, 4, 8), (1, 8, 16)))
    runner, chosen = behind.load(tmp_path), []
    (context,) = behind.kept
    for n in (1, 8, 4, 12, 4):
        (y,) = runner.run({"x": x(n)})
        assert np.array_equal(y, 2 * x(n))  # type: ignore[arg-type]
        chosen.append(behind.told(context).profile)
    assert chosen == [0, 1, 0, 1, 0]
    runner.on_device({"x": x(16)}, cuda_graph=True)
    assert behind.told(behind.kept[-1]).profile == 1
    behind.does(IExecutionContext__set_optimization_profile_async=lambda *_: False)
    with pytest.raises(JobFailed, match="does not take profile 1"):
        runner.run({"x": x(16)})


def test_an_engine_with_numbers_that_no_array_has_is_not_measured(
    tmp_path: Path, runtime: str
) -> None:
    behind = Behind(runtime)
    behind.does(ICudaEngine__get_tensor_dtype=lambda *_: behind.of("DataType", "BF16"))
    with pytest.raises(JobFailed, match="is of type BF16") as refused:
        behind.load(tmp_path)
    assert refused.value.code == "not_measurable_here"


def test_a_file_without_anything_in_it_is_no_engine(tmp_path: Path, runtime: str) -> None:
    with pytest.raises(JobFailed, match="is empty") as refused:
        Behind(runtime).load(tmp_path, b"")
    assert refused.value.code == "engine_load_failed"


def test_without_a_gpu_or_its_driver_nothing_is_run(tmp_path: Path, runtime: str) -> None:
    behind = Behind(runtime)
    behind.library.fails["cuDeviceGet"] = 101
    with pytest.raises(JobFailed, match="cuDeviceGet answered 101") as refused:
        behind.load(tmp_path)
    assert refused.value.code == "not_measurable_here"
    behind.backend._compiler.record.has_gpu = False
    with pytest.raises(JobFailed, match="has no GPU"):
        behind.load(tmp_path)


def test_each_stream_has_a_context_memory_and_answers_of_its_own(
    tmp_path: Path, runtime: str
) -> None:
    behind = Behind(runtime)
    runner = behind.load(tmp_path)
    assert isinstance(runner, RunsConcurrently)
    bound = [runner.bound({"x": x(2, seed)}) for seed in (1, 5)]
    found: list[Any] = [None, None]

    def run(at: int) -> None:
        found[at] = bound[at]()

    threads = [threading.Thread(target=run, args=(at,)) for at in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(
        np.array_equal(each[0], 2 * x(2, seed)) for each, seed in zip(found, (1, 5), strict=True)
    )
    assert len({context for context, _ in behind.ran_on}) == 2
    assert len({stream for _, stream in behind.ran_on}) == 2
    bound.clear()
    assert gone(behind) == {}


def test_what_nobody_has_any_more_is_given_back_whichever_thread_was_the_last(
    tmp_path: Path, runtime: str
) -> None:
    behind = Behind(runtime)
    runner = behind.load(tmp_path)
    feeds = {"x": x(4)}
    every: list[list[object]] = [[runner.bound(feeds)], [runner.on_device(feeds, cuda_graph=True)]]
    for last in every:
        thread = threading.Thread(target=last.clear)
        thread.start()
        thread.join()
    assert behind.library.held == {}
    assert len(behind.library.streams) == 1  # the runner's own


def test_a_sweep_runs_them_and_tells_from_which_number_on_it_does_not(
    tmp_path: Path, runtime: str
) -> None:
    behind = Behind(runtime)
    behind.most = 4  # the runner's own context, and three more
    runner = behind.load(tmp_path)
    found = sweep_streams(runner, {"x": x(1)}, QUICK, Conditions(None), (time.perf_counter, Sink()))
    assert [row.streams for row in found.rows] == [1, 2]
    assert "4 at a time do not run here" in (found.reason or "")
    assert "there is no more room" in (found.reason or "")
    assert len(behind.library.streams) == 1
    assert gone(behind) == {}


def test_host_code_runs_only_where_the_engine_was_built_with_it(
    tmp_path: Path, runtime: str
) -> None:
    if runtime == RTX:
        pytest.skip("it builds no version-compatible engines")
    behind = Behind(runtime)
    for built in (None, CompileOptions(), CompileOptions(weight_streaming=True)):
        with pytest.raises(JobFailed, match="engine_host_code_allowed") as refused:
            behind.load(tmp_path, HOST_CODE, built)
        assert refused.value.code == "engine_load_failed"
        assert behind.host_code_allowed is False
    runner = behind.load(tmp_path, HOST_CODE, CompileOptions(version_compatible=True))
    assert behind.host_code_allowed is True
    assert runner.run({"x": x(1)})


def test_an_engine_without_its_weights_is_refused_before_it_is_opened(
    tmp_path: Path, runtime: str
) -> None:
    if runtime not in VERSIONS:
        pytest.skip("it strips no plan")
    behind = Behind(runtime)
    with pytest.raises(JobFailed, match="strip_plan") as refused:
        behind.load(tmp_path, built=CompileOptions(strip_plan=True))
    assert (refused.value.code, refused.value.blame) == ("engine_stripped", "person")
    assert behind.host_code_allowed is None
    assert isinstance(behind.backend, TensorRT)
