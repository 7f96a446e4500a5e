"""Views as the farm sends them, for tests of what the client makes of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import onnx
from onnx import TensorProto, helper

from enginefarm.errors import Failure
from enginefarm.report import (
    AccuracyReport,
    BuildReport,
    CompileReport,
    GateVerdict,
    LatencyReport,
    OutputAccuracy,
    Percentiles,
)
from enginefarm.spec import BuildSpec
from enginefarm.state import ArtifactState, Blame, BuildState, JobState, Stage
from enginefarm.target import Target
from enginefarm.views import ArtifactView, BuildView, EventView, JobView, ModelView, TargetView

MODEL = f"sha256:{'1' * 64}"
ARTIFACT = f"sha256:{'a' * 64}"
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
CPU, GPU = Target.parse("onnxruntime@cpu"), Target.parse("tensorrt-rtx@sm_89")
GATE_MISSED = Failure(
    code="gate_not_met",
    blame=Blame.PERSON,
    message="cosine is 0.91.",
    why="The gate asks for at least 0.999.",
    fix="Lower the gate or the optimization.",
)


def job(stage: Stage, state: JobState, target: Target = CPU, **changed: object) -> JobView:
    """Return a job."""
    values: dict[str, Any] = {
        "id": f"job_{target.arch}{stage}",
        "stage": stage,
        "target": target,
        "state": state,
        "attempt": 1,
        "key": None,
        "queue": f"{stage}.{target.arch}",
        "node": "node-1" if state is JobState.RUNNING else None,
        "failure": None,
        "created_at": AT,
        "queued_at": AT,
        "started_at": AT if state not in {JobState.WAITING, JobState.QUEUED} else None,
        "finished_at": AT.replace(second=3) if state.terminal else None,
    }
    return JobView.model_validate(values | changed)


def build(state: BuildState, jobs: list[JobView], targets: list[TargetView]) -> BuildView:
    """Return a build."""
    return BuildView(
        id="bld_1",
        state=state,
        model=MODEL,
        model_name="small",
        targets=targets,
        labels={},
        priority=5,
        created_at=AT,
        finished_at=AT if state.terminal else None,
        spec=BuildSpec(model=MODEL, targets=[each.target for each in targets]),
        jobs=jobs,
    )


def published(target: Target = CPU, digest: str = ARTIFACT) -> TargetView:
    """Return a target that came out well."""
    return TargetView(
        target=target,
        state=JobState.SUCCEEDED,
        artifact=digest,
        artifact_state=ArtifactState.PUBLISHED,
        cached=False,
        failure=None,
    )


def failed(target: Target = GPU, failure: Failure = GATE_MISSED) -> TargetView:
    """Return a target that did not."""
    return TargetView(
        target=target,
        state=JobState.FAILED,
        artifact=None,
        artifact_state=None,
        cached=False,
        failure=failure,
    )


def model_view(digest: str, name: str) -> ModelView:
    """Return a model that the farm has."""
    return ModelView(
        digest=digest,
        name=name,
        size=1,
        files=[],
        inputs=[],
        outputs=[],
        opsets={"": 17},
        node_count=1,
        created_at=AT,
    )


def one_node_model() -> bytes:
    """Return the bytes of a model that adds its input to itself."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def event(number: int, kind: str, data: dict[str, Any], job_id: str | None = None) -> EventView:
    """Return an event."""
    return EventView(id=f"{number}.0-0", kind=kind, build="bld_1", job=job_id, data=data, at=AT)


def artifact(*, measured: bool = True) -> ArtifactView:
    """Return an artifact with its report."""
    report = BuildReport(
        target=CPU,
        backend_version="1.32.0",
        model=MODEL,
        measured=measured,
        reason=None if measured else "No live node measures it.",
        compile=CompileReport(seconds=1.5, engine_bytes=2_500_000, peak_memory_bytes=1),
        latency=[_latency()] if measured else [],
        accuracy=_accuracy() if measured else None,
        gates=[GateVerdict(gate="cosine>=0.9999999", value=0.999987, met=False)],
    )
    return ArtifactView(
        digest=ARTIFACT,
        state=ArtifactState.PUBLISHED,
        target=CPU,
        model=MODEL,
        model_name="small",
        build="bld_1",
        size=2_500_000,
        files=[],
        report=report,
        created_at=AT,
    )


def _latency() -> LatencyReport:
    times = Percentiles(
        count=50, min=1, max=3, mean=2, std=0.1, cov=0.05, p50=2.25, p90=2.5, p95=2.6, p99=2.75
    )
    return LatencyReport(
        shapes={"x": [1, 3]},
        batch=1,
        end_to_end_ms=times,
        throughput_qps=400,
        warmup_iterations=5,
        warmup_ms=200,
        stable=True,
        load_ms=3,
        peak_memory_bytes=1 << 20,
        threads=1,
    )


def _accuracy() -> AccuracyReport:
    output = OutputAccuracy(
        output="y",
        dtype_reference="float32",
        dtype_engine="float32",
        max_abs_error=1.2e-5,
        mean_abs_error=1e-6,
        max_rel_error=None,
        mean_rel_error=None,
        cosine=0.999987,
        snr_db=80,
        exact=False,
        top1_agreement=None,
        nonfinite_engine=0,
        nonfinite_reference=0,
    )
    return AccuracyReport(
        reference="onnxruntime",
        data="synthetic, seed 0",
        synthetic=True,
        samples=4,
        outputs=[output],
    )
