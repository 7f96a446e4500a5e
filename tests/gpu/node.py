"""A node's executor on a real GPU, with a small worker API on loopback in place of a farm."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from enginefarm.errors import Failure
from enginefarm.report import LatencyReport
from enginefarm.state import Stage
from localfarm.models import ShippedModel
from tasks.messages import Device
from tests.integration.workers.served import Served
from workers import executor
from workers.executor import Workshop
from workers.gpu.need import GpuRules
from workers.probe import Probe

QUICK = {"min_duration_ms": 500, "max_duration_ms": 1500}
TARGET = "onnxruntime@{arch}"


@dataclass
class GpuNode:
    """Builds and measures real models on one device, as a node does."""

    served: Served
    workshop: Workshop
    found: Probe
    gpu: Device

    @property
    def target(self) -> str:
        """What this node builds and measures for."""
        return TARGET.format(arch=self.gpu.arch)

    def with_rules(self, **rules: Any) -> GpuNode:  # noqa: ANN401 - any field of the rules
        """Return the node under other rules of its operator."""
        gpus = replace(self.workshop.gpus, **rules)
        return replace(self, workshop=replace(self.workshop, gpus=gpus))

    def build(self, sample: ShippedModel) -> bytes:
        """Compile a model and return its engine."""
        end = self._run(Stage.COMPILE, sample, [])
        assert end["failure"] is None, end["failure"]
        return self.served.blobs[end["outputs"][0]["digest"]]

    def measure(self, sample: ShippedModel, engine: bytes, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - any option
        """Measure an engine; return how the attempt ended."""
        options = QUICK | options
        file = self.served.put(engine, "engine", "model.onnx")
        return self._run(Stage.BENCHMARK, sample, [file], options=options)

    def compare(
        self,
        sample: ShippedModel,
        engines: tuple[bytes, bytes],
        **options: Any,  # noqa: ANN401 - any option
    ) -> dict[str, Any]:
        """Measure two engines in turns; return how the attempt ended."""
        sides = zip(("first", "second"), engines, strict=True)
        files = [self.served.put(engine, side, "model.onnx") for side, engine in sides]
        options = QUICK | options
        return self._run(Stage.BENCHMARK, sample, files, compare={}, options=options)

    def _run(
        self,
        stage: Stage,
        sample: ShippedModel,
        more: list[Any],
        **recipe: Any,  # noqa: ANN401 - any field of a recipe
    ) -> dict[str, Any]:
        served = self.served
        served.heard.clear()
        version = next(row.version for row in self.found.backends if row.name == "onnxruntime")
        synthetic = {n: s.model_dump(exclude_none=True) for n, s in sample.synthetic.items()}
        profile = {n: s.model_dump() for n, s in (sample.profile or {}).items()}
        told = {"backend_version": version, "profiles": [profile] if profile else []}
        model = served.put(sample.file().read_bytes(), "model", "model.onnx")
        served.assign(
            stage,
            self.target,
            told | {"synthetic": synthetic} | recipe,
            [model, *more],
            running_s=400,
        )
        executor.attempt(self.workshop, "job_1", 1)
        end = served.finish
        if end["failure"] is not None:
            end["log_text"] = served.log
        return end


def latencies(end: dict[str, Any]) -> list[LatencyReport]:
    """Return what a measurement found, read as the farm reads it."""
    assert end["failure"] is None, f"{end['failure']}\n{end['log_text']}"
    return [LatencyReport.model_validate(row) for row in end["facts"]["latency"]]


def failure_of(end: dict[str, Any]) -> Failure:
    """Return why an attempt failed."""
    return Failure.model_validate(end["failure"])


def rules(folder: Path, **more: Any) -> GpuRules:  # noqa: ANN401 - any field of the rules
    """Return the rules of a node whose locks are in this folder."""
    return GpuRules(lock_folder=folder, wait_s=60, **more)
