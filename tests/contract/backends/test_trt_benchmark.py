"""A benchmark of an engine of TensorRT or TensorRT-RTX, whole: as a node's child makes it.

The original is a real model in ONNX Runtime; the engine runs on the stand-ins.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from enginefarm.compile_options import CompileOptions
from enginefarm.errors import JobFailed
from enginefarm.spec import ShapeRange
from enginefarm.state import Blame
from tests.contract.backends import made
from tests.contract.backends.trt_api.engines import COMPUTE_MS, HERE, HOST_CODE, RTX, Behind
from tests.unit.workers.measurement.test_timing import Sink
from workers import benchmark
from workers.backends.base import ModelSource
from workers.benchmark import Request

OPTIONS = {
    "warmup_ms": 0,
    "min_iterations": 10,
    "min_duration_ms": 10,
    "max_duration_ms": 200,
    "cuda_graph": True,
    "batches": [1, 8],
    "streams": [1, 2],
}
PROFILES = [{"x": ShapeRange(min=[1, 4], opt=[4, 4], max=[8, 4])}]
FULL = "IExecutionContext::enqueueV3: Error Code 1: Cuda Runtime (out of memory)"
pytestmark = pytest.mark.parametrize("runtime", [HERE[-2], RTX] if RTX in HERE else [HERE[-1]])


def doubling() -> onnx.ModelProto:
    """Return y = x + x, for any n."""
    rows = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy"]
    node = helper.make_node("Add", ["x", "x"], ["y"])
    graph = helper.make_graph([node], "doubling", rows[:1], rows[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def request(behind: Behind, folder: Path, plan: bytes = b"a plan", **options: object) -> Request:
    """Return what is asked for."""
    engine = folder / "model.plan"
    engine.write_bytes(plan)
    model = made.save(folder / "original", doubling())
    built = CompileOptions(version_compatible=True) if plan == HOST_CODE else CompileOptions()
    source = ModelSource(model, behind.target, PROFILES, built)
    return Request.of({"options": OPTIONS | options}, source, engine, None)


def test_it_has_the_devices_times_streams_and_accuracy(tmp_path: Path, runtime: str) -> None:
    behind = Behind(runtime)
    plan = b"a plan" if runtime == RTX else HOST_CODE
    facts: dict[str, Any] = benchmark.run(
        request(behind, tmp_path, plan), behind.backend, Sink(), lambda: 1
    )

    assert [row["batch"] for row in facts["latency"]] == [4, 1, 8]
    for row in facts["latency"]:
        assert row["device_reason"] is None
        assert row["device"]["cuda_graph"]
        assert row["device"]["gpu_compute_ms"]["p50"] == pytest.approx(COMPUTE_MS, rel=1e-3)
    assert [row["streams"] for row in facts["latency"][0]["streams"]] == [1, 2]
    assert [row["cosine"] for row in facts["accuracy"]["outputs"]] == [pytest.approx(1)]
    assert behind.library.held == {}


@pytest.mark.parametrize("whose", ["driver", "runtime"])
def test_a_device_that_is_full_is_the_nodes_fault_and_not_the_engines(
    tmp_path: Path, runtime: str, whose: str
) -> None:
    behind = Behind(runtime)
    if whose == "driver":
        behind.library.capacity = 0
    else:
        behind.does(IExecutionContext__execute_async_v3=lambda *_: behind.say(FULL))
    with pytest.raises(JobFailed) as refused:
        benchmark.run(request(behind, tmp_path), behind.backend, Sink(), lambda: 1)
    assert (refused.value.code, refused.value.blame) == ("out_of_memory", Blame.NODE)
