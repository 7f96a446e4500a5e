"""What came of a candidate, read from its artifact's report. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from enginefarm.accuracy_report import why_lost
from enginefarm.errors import Failure
from enginefarm.gate import Gate, Metric
from enginefarm.precision import Precision
from enginefarm.report import (
    AccuracyReport,
    BuildReport,
    GateVerdict,
    LatencyReport,
    OutputAccuracy,
)
from enginefarm.search import USUAL_REQUIREMENT, SearchSpec
from enginefarm.search_views import AccuracyOf, Outcome
from enginefarm.state import ArtifactState, Stage
from tasks.gates import describe, judge
from tasks.quarantine import kept_back
from tasks.readings import LATENCIES, OF_METRIC, PER_OUTPUT, at_profiles
from tasks.unserved import nobody_makes

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


def gates_of(spec: SearchSpec, precision: Precision, *, measured: bool) -> list[Gate]:
    """Return the gates of a candidate: the build's own, and what is required and can be judged.

    So a candidate that misses a requirement is not released. Where no engine of the target is run,
    what is required of accuracy is asked of the model file, if there is another than the original.
    """
    asked = requirements(spec)
    if not measured:
        asked = [row for gate in asked if (row := _unrun(gate, precision)) is not None]
    return [*spec.build.gates, *(row for row in asked if row not in spec.build.gates)]


def _unrun(gate: Gate, precision: Precision) -> Gate | None:
    """Return what can be asked in place of a gate where no engine is run."""
    if gate.metric is Metric.ENGINE_BYTES or gate.metric.of_model_file:
        return gate
    if precision.stage is None or gate.metric not in PER_OUTPUT:
        return None
    return gate.model_copy(update={"metric": Metric(f"model.{gate.metric}")})


def read(
    spec: SearchSpec, report: BuildReport, artifact: str, state: ArtifactState, *, fit: bool
) -> Outcome:
    """Return what a report says of a candidate. ``fit``: nothing but the choice keeps it back.

    Where its engine was not run, the accuracy is that of the model file it was built from.
    """
    whose, accuracy = _accuracy(report)
    aside = set_aside(spec, measured=report.measured)
    latency = at_profiles(report)
    judged = _judged(spec, report, aside)
    rows = [] if accuracy is None else accuracy.outputs
    costs = None if report.precision is None else report.precision.sensitivity
    metric = None if accuracy is None else accuracy.metric
    right = why_lost(rows) is None and report.why_lost is None
    return Outcome(
        accuracy_of=whose,
        synthetic=None if accuracy is None else accuracy.synthetic,
        cosine=_worst(rows, lambda row: row.cosine),
        snr_db=_worst(rows, lambda row: row.snr_db),
        top1_agreement=_worst(rows, lambda row: row.top1_agreement),
        metric_loss=None if metric is None else metric.loss,
        latency_p50_ms=_most(latency, LATENCIES[Metric.LATENCY_P50_MS]),
        latency_p99_ms=_most(latency, LATENCIES[Metric.LATENCY_P99_MS]),
        tainted=_taints(latency),
        memory_bytes=max((row.peak_memory_bytes for row in latency), default=None),
        engine_bytes=report.compile.engine_bytes,
        verdicts=[row for _, row in judged],
        set_aside=[describe(row) for row in aside],
        met=all(row.met for _, row in judged) and fit and right,
        held_back=_held_back(report, judged),
        accurate=all(row.met for gate, row in judged if of_accuracy(gate)) and right,
        layers=[] if costs is None else [row.node for row in costs.layers],
        steps=[] if costs is None else costs.steps,
        artifact=artifact,
        artifact_state=state,
        reason=_EXACT if whose is AccuracyOf.ORIGINAL else report.reason,
    )


def _held_back(report: BuildReport, judged: Sequence[tuple[Gate, GateVerdict]]) -> str | None:
    """Say what keeps an artifact back besides what is required of it."""
    known = {row.gate for _, row in judged}
    others = [row for row in report.gates if row.gate not in known]
    return ", ".join(kept_back(report.model_copy(update={"gates": others}))) or None


def _judged(
    spec: SearchSpec, report: BuildReport, aside: Sequence[Gate]
) -> list[tuple[Gate, GateVerdict]]:
    """Return each requirement that can be judged, with what came of it."""
    whose, accuracy = _accuracy(report)
    asked = [row for row in requirements(spec) if row not in aside]
    if whose is AccuracyOf.ORIGINAL:
        asked = [row for row in asked if not of_accuracy(row)]
    verdicts = judge(asked, report.model_copy(update={"accuracy": accuracy}))
    return list(zip(asked, verdicts, strict=True))


def failed(failure: Failure) -> Outcome:
    """Return the outcome of a candidate that did not become an engine."""
    return Outcome(failure=failure)


def untried(precision: Precision) -> Outcome:
    """Return the outcome of a candidate that no node had the tool for until the search ended."""
    refused = nobody_makes(precision, precision.stage or Stage.CAST)
    message = f"It was not tried: no live node has {precision.maker}."
    return Outcome(
        failure=refused.as_failure().model_copy(update={"message": message}), untried=True
    )


def _taints(latency: Sequence[LatencyReport]) -> list[str]:
    found = [reason for row in latency if row.trust is not None for reason in row.trust.tainted]
    return list(dict.fromkeys(found))


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
