"""One engine on two GPUs of one architecture, from the claim to the signed report.

Real API, database, bucket, executors and children; ONNX Runtime measures, the GPUs are recordings.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from enginefarm.report import BuildReport
from enginefarm.state import ArtifactState, Stage
from storage import artifacts
from storage.models import Job
from tasks.messages import Device
from tests.integration.api.measuring_child import GPUS
from tests.integration.api.served import Served
from tests.integration.tasks.fake_node import backend
from tests.integration.tasks.scene import Scene, add_model
from tests.integration.tasks.sku_nodes import GPU, SkuNode, compiled
from workers import executor, sandbox
from workers.executor import Workshop
from workers.farm_api import WorkerApi
from workers.gpu.need import GpuRules

CHILD = "tests.integration.api.measuring_child"
QUICK = {"warmup_ms": 0, "min_iterations": 10, "min_duration_ms": 0, "max_duration_ms": 100}


@pytest.fixture(autouse=True)
def _measuring_children(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sandbox.child_command

    def command(scratch: Path) -> list[str]:
        return [CHILD if part == "workers.child" else part for part in real(scratch)]

    monkeypatch.setattr(sandbox, "child_command", command)


def doubling() -> bytes:
    """Return a model that doubles, x [1, 4] to y [1, 4]."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    node = helper.make_node("Add", ["x", "x"], ["y"])
    graph = helper.make_graph([node], "doubler", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    written: bytes = model.SerializeToString()
    onnx.checker.check_model(model)
    return written


def measured(api: Served, node: SkuNode, uuid: str, job: Job, folder: Path) -> None:
    """Let a node's executor measure, both GPUs in the machine and its own to be found."""
    assert node.credential is not None
    worker = WorkerApi(api.url, node.credential)
    devices = [
        Device(arch="sm_89", name=name, uuid=each, driver=f"580 of {each}")
        for each, name in GPUS.items()
    ]
    rules = GpuRules(lock_folder=folder / "locks", times=1)
    shop = Workshop(worker, folder / uuid, devices, 1 << 20, gpus=rules)
    try:
        assert executor.attempt(shop, job.id, job.attempt) == "succeeded"
    finally:
        worker.close()


def test_an_engine_that_is_wrong_on_one_of_two_gpus_is_measured_on_both_and_held_back(
    api: Served, tmp_path: Path
) -> None:
    scene = Scene.on(api.farm)
    scene.model = add_model(api.farm, scene.tenant_id, doubling())
    runs = [backend(onnxruntime.__version__, arch="sm_89")]
    nodes = {
        uuid: SkuNode(api.farm, uuid.lower(), backends=runs, gpu=name, engine=doubling())
        for uuid, name in GPUS.items()
    }
    build_id = compiled(
        scene,
        nodes["GPU-l4"],
        "every",
        options={"repair": {"mode": "none"}, "benchmark": QUICK},
        gates=[{"metric": "snr_db", "at_least": 60}],
    )
    jobs = scene.on_skus(build_id, GPU)
    measured(api, nodes["GPU-l4"], "GPU-l4", jobs["l4"], tmp_path)
    measured(api, nodes["GPU-rtx"], "GPU-rtx", jobs["geforce-rtx-4090"], tmp_path)
    scene.settle()
    scene.publish()
    digest = (scene.job(build_id, Stage.PUBLISH, GPU).result or {})["artifact"]
    with api.farm.database.transaction() as session:
        row = artifacts.get(session, scene.tenant_id, digest)
    assert row.state is ArtifactState.QUARANTINED
    told = BuildReport.model_validate(row.report).portability
    assert told is not None
    found = {each.sku: each for each in told.skus}
    machines = {sku: each.machine for sku, each in found.items()}
    assert {sku: it and (it.device, it.driver) for sku, it in machines.items()} == {
        "l4": ("NVIDIA L4", "580 of GPU-l4"),
        "geforce-rtx-4090": ("NVIDIA GeForce RTX 4090", "580 of GPU-rtx"),
    }
    assert [gate.met for gate in found["l4"].gates] == [True]
    assert [gate.met for gate in found["geforce-rtx-4090"].gates] == [False]
    for each in told.skus:
        trust = each.latency[0].trust
        assert trust is not None
        assert each.ratios[0] is not None
