"""What came of a candidate, read from its artifact's report. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from enginefarm.errors import Failure
from enginefarm.gate import Gate, Metric
from enginefarm.report import AccuracyReport, BuildReport, LatencyReport, OutputAccuracy
from enginefarm.search import USUAL_REQUIREMENT, SearchSpec
from enginefarm.search_views import AccuracyOf, Outcome
from enginefarm.state import ArtifactState
from tasks.gates import describe, judge
from tasks.readings import LATENCIES, OF_METRIC, PER_OUTPUT

_EXACT = "the model as it came is what accuracy is held against"


def requirements(spec: SearchSpec) -> list[Gate]:
    """Return what is required; where nothing is of accuracy, the usual bound on the cosine."""
    asked = list(spec.require)
    return asked if any(map(of_accuracy, asked)) else [USUAL_REQUIREMENT, *asked]


def of_accuracy(gate: Gate) -> bool:
    """Tell whether a requirement is on how right the answers are."""
    return gate.metric in PER_OUTPUT or gate.metric in OF_METRIC


def set_aside(spec: SearchSpec, *, measured: bool) -> list[Gate]:
    """Return the requirements that cannot be judged where no engine of the target is run."""
    if measured:
        return []
    return [row for row in requirements(spec) if row.metric in LATENCIES or row.metric in OF_METRIC]


def gates_of(spec: SearchSpec, *, measured: bool) -> list[Gate]:
    """Return the gates of a candidate: the build's own, and what is required and can be judged.

    So a candidate that misses a requirement is not released.
    """
    asked = [row for row in requirements(spec) if measured or row.metric is Metric.ENGINE_BYTES]
    return [*spec.build.gates, *(row for row in asked if row not in spec.build.gates)]


def read(spec: SearchSpec, report: BuildReport, artifact: str, state: ArtifactState) -> Outcome:
    """Return what a report says of a candidate.

    Where its engine was not run, the accuracy is that of the model file it was built from.
    """
    whose, accuracy = _accuracy(report)
    aside = set_aside(spec, measured=report.measured)
    asked = [row for row in requirements(spec) if row not in aside]
    if whose is AccuracyOf.ORIGINAL:
        asked = [row for row in asked if not of_accuracy(row)]
    verdicts = judge(asked, report.model_copy(update={"accuracy": accuracy}))
    right = [row.met for gate, row in zip(asked, verdicts, strict=True) if of_accuracy(gate)]
    rows = [] if accuracy is None else accuracy.outputs
    costs = None if report.precision is None else report.precision.sensitivity
    metric = None if accuracy is None else accuracy.metric
    latency = [row for row in report.latency if not row.swept]
    return Outcome(
        accuracy_of=whose,
        synthetic=None if accuracy is None else accuracy.synthetic,
        cosine=_worst(rows, lambda row: row.cosine),
        snr_db=_worst(rows, lambda row: row.snr_db),
        top1_agreement=_worst(rows, lambda row: row.top1_agreement),
        metric_loss=None if metric is None else metric.loss,
        latency_p50_ms=_most(latency, LATENCIES[Metric.LATENCY_P50_MS]),
        latency_p99_ms=_most(latency, LATENCIES[Metric.LATENCY_P99_MS]),
        memory_bytes=max((row.peak_memory_bytes for row in latency), default=None),
        engine_bytes=report.compile.engine_bytes,
        verdicts=verdicts,
        set_aside=[describe(row) for row in aside],
        met=all(row.met for row in verdicts) and state is ArtifactState.PUBLISHED,
        accurate=all(right),
        layers=[] if costs is None else [row.node for row in costs.layers],
        steps=[] if costs is None else costs.steps,
        artifact=artifact,
        artifact_state=state,
        reason=_EXACT if whose is AccuracyOf.ORIGINAL else report.reason,
    )


def failed(failure: Failure) -> Outcome:
    """Return the outcome of a candidate that did not become an engine."""
    return Outcome(failure=failure)


def _accuracy(report: BuildReport) -> tuple[AccuracyOf | None, AccuracyReport | None]:
    if report.accuracy is not None:
        return AccuracyOf.ENGINE, report.accuracy
    if report.precision is None:
        return (None if report.measured else AccuracyOf.ORIGINAL), None
    return AccuracyOf.MODEL_FILE, report.precision.model_accuracy


def _worst(
    rows: Iterable[OutputAccuracy], value: Callable[[OutputAccuracy], float | None]
) -> float | None:
    return min((found for found in map(value, rows) if found is not None), default=None)


def _most(rows: Sequence[LatencyReport], value: Callable[[LatencyReport], float]) -> float | None:
    return max(map(value, rows), default=None)
