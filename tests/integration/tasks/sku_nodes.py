"""Nodes with one GPU each that exists in words only: what they measure is what a test wants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from enginefarm.report import Machine
from enginefarm.state import JobState, Stage
from storage.models import Job
from tasks.messages import (
    Assignment,
    BackendDescription,
    Device,
    FinishRequest,
    NodeDescription,
)
from tests.integration.tasks.fake_facts import LATENCY, accuracy
from tests.integration.tasks.fake_node import FakeNode, backend
from tests.integration.tasks.scene import Scene

GPU = "onnxruntime@sm_89"
L4, RTX = "NVIDIA L4", "NVIDIA GeForce RTX 4090"


@dataclass
class SkuNode(FakeNode):
    """A node that measures on its GPU; ``reported``: the one that it says it measured on."""

    backends: list[BackendDescription] = field(default_factory=lambda: [backend(arch="sm_89")])
    gpu: str = L4
    arch: str = "sm_89"
    p50: float = 1.5
    reported: str | None = None
    fault: str | None = None

    def described(self) -> NodeDescription:
        device = Device(arch=self.arch, name=self.gpu, uuid=f"GPU-{self.name}", fault=self.fault)
        return super().described().model_copy(update={"devices": [device]})

    def done(self, work: Assignment, *, upload: bool = True) -> FinishRequest:
        machine = Machine(
            hostname=self.name,
            cpu="EPYC",
            cores=8,
            memory_bytes=1 << 34,
            device=self.reported or self.gpu,
            driver=f"580.{self.name}",
        )
        return super().done(work, upload=upload).model_copy(update={"machine": machine})

    def facts(self, stage: Stage, size: int) -> dict[str, Any]:
        if stage is not Stage.BENCHMARK:
            return super().facts(stage, size)
        times: Any = LATENCY["end_to_end_ms"]
        factor = self.p50 / times["p50"]
        scaled = {
            name: value if name == "count" else value * factor for name, value in times.items()
        }
        row = LATENCY | {"end_to_end_ms": scaled}
        return {"latency": [row], "accuracy": accuracy(self.cosine), "versions": {}}


def measure(scene: Scene, node: FakeNode, job: Job) -> None:
    """Let a node measure on its SKU, and settle it."""
    work = node.take(job)
    assert node.tell(work, node.done(work)) is JobState.UPLOADED
    scene.settle()


def compiled(scene: Scene, node: FakeNode, *skus: str, **fields: Any) -> str:  # noqa: ANN401 - of a spec
    """Submit a build that is to be measured on these SKUs, and let a node build its engine."""
    fields = {"options": {"repair": {"mode": "none"}}, "measure_on": list(skus)} | fields
    build_id = scene.submit(GPU, **fields)
    scene.run(node, build_id, GPU)
    return build_id
