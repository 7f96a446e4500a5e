"""Why an artifact is kept back: gates that it misses, or the verdict on its precision. Pure."""

from __future__ import annotations

from typing import Any

from enginefarm.errors import Failure
from enginefarm.report import BuildReport, GateVerdict
from enginefarm.state import Blame
from enginefarm.verdict_report import PrecisionVerdict, VerdictReport

_CODES = {
    PrecisionVerdict.REGRESSION: "precision_regression",
    PrecisionVerdict.SLOWER: "precision_slower",
}
_MESSAGES = {
    PrecisionVerdict.REGRESSION: "In this precision the engine is less accurate than allowed.",
    PrecisionVerdict.SLOWER: "In this precision the engine is not faster than without it.",
}
_WORDS = {
    PrecisionVerdict.REGRESSION: "less accurate than its twin may be",
    PrecisionVerdict.SLOWER: "not shown to be faster than its twin",
}
_FIXES = {
    PrecisionVerdict.REGRESSION: "Calibrate on more or better samples, exclude the nodes that lose"
    " most, or allow more loss: precision.min_cosine.",
    PrecisionVerdict.SLOWER: "Build the model without this precision, or release the engine all"
    " the same: precision.on_slower: publish.",
}


def measures_again(report: BuildReport) -> bool:
    """Tell whether a gate or a verdict would not believe what was measured, or can tell nothing.

    Then no later build should take it from the cache: it may be measured better.
    """
    verdict = report.precision_verdict
    beside = verdict.speed if verdict is not None and verdict.verdict is None else []
    skus = [] if report.portability is None else report.portability.skus
    if any(row is not None and row.open for row in (verdict, *(r.precision_verdict for r in skus))):
        return True
    judged = [*report.gates, *(row for sku in skus for row in sku.gates)]
    gates = any(row.tainted for row in judged)
    return gates or any(row.trust is not None and row.trust.tainted for row in beside)


def kept_back(report: BuildReport) -> list[str]:
    """Return what keeps an artifact from going out, in a few words each: its verdict and gates."""
    verdict = report.precision_verdict
    slow = verdict is not None and verdict.held_back and verdict.verdict in _WORDS
    said = [_WORDS[verdict.verdict]] if slow and verdict and verdict.verdict else []
    gates = [f"missing the gate {row.gate}" for row in report.gates if not row.met]
    return [*said, *gates]


def held_back(report: BuildReport, artifact: str) -> Failure:
    """Return the failure of a job whose artifact must not go out."""
    unmet = [verdict for verdict in report.gates if not verdict.met]
    verdict = report.precision_verdict
    if not unmet and not (verdict is not None and verdict.held_back):
        return _not_finite(report.why_lost or "", artifact)
    if unmet or verdict is None or verdict.verdict is None:
        return _gate_failure(unmet, artifact, verdict)
    context: dict[str, Any] = {
        "artifact": artifact,
        "verdict": str(verdict.verdict),
        "missed_by": None if verdict.floor is None else verdict.floor.missed_by,
        "speedup": min((row.speedup for row in verdict.speed), default=None),
    }
    failure = Failure(
        code=_CODES[verdict.verdict],
        blame=Blame.PERSON,
        message=_MESSAGES[verdict.verdict],
        why=_sentence(verdict.reason),
        fix=f"The artifact is quarantined. {_FIXES[verdict.verdict]}",
        context=context,
    )
    if verdict.open:
        return _not_shown(failure)
    lost = report.why_lost is not None and verdict.verdict is PrecisionVerdict.REGRESSION
    return _overflowing(failure) if lost else failure


def _not_shown(failure: Failure) -> Failure:
    return Failure(
        code="precision_slower",
        blame=failure.blame,
        why=failure.why,
        context=failure.context,
        message="In this precision the engine is not shown to be faster than without it.",
        fix="The artifact is quarantined. Raise options.benchmark.min_duration_ms, or submit the"
        " build again: it is measured anew.",
    )


def _overflowing(failure: Failure) -> Failure:
    return Failure(
        code="precision_regression",
        blame=failure.blame,
        why=failure.why,
        context=failure.context,
        message=failure.message,
        fix="The artifact is quarantined. Choose bf16, or exclude the nodes that overflow; if such"
        " values are right on this data, say options.benchmark.not_finite: publish.",
    )


def _not_finite(why: str, artifact: str) -> Failure:
    return Failure(
        code="engine_not_finite",
        blame=Blame.PERSON,
        message="The engine gives NaN or infinity where the original does not.",
        why=_sentence(why),
        fix="The artifact is quarantined. Look at its report; if such values are right on this"
        " data, say options.benchmark.not_finite: publish.",
        context={"artifact": artifact},
    )


def _sentence(said: str) -> str:
    return f"{said[:1].upper()}{said[1:]}."


def _gate_failure(
    unmet: list[GateVerdict], artifact: str, verdict: VerdictReport | None
) -> Failure:
    said = [f"{row.gate}: {_seen(row)}" for row in unmet]
    also = verdict is not None and verdict.verdict is PrecisionVerdict.SLOWER and verdict.held_back
    slow = [f"the verdict on the precision is slower: {verdict.reason}"] if also and verdict else []
    failure = Failure(
        code="gate_not_met",
        blame=Blame.PERSON,
        message=f"{len(said)} gate(s) were not met.",
        why="; ".join([*said, *slow]) + ".",
        fix="The artifact is quarantined; look at its report, or change model, options or gate.",
        context={"artifact": artifact, "unmet": said},
    )
    doubted = bool(unmet) and not slow and all(row.tainted for row in unmet)
    return _not_believed(failure) if doubted else failure


def _not_believed(failure: Failure) -> Failure:
    """Return the failure of gates that are not missed for sure: nobody can rely on the numbers."""
    return Failure(
        code="gate_tainted",
        blame=failure.blame,
        why=failure.why,
        context=failure.context,
        message="What was measured cannot be relied on, and a gate needs it.",
        fix="The artifact is quarantined. Submit the build again: only the benchmark is made anew."
        " If the device is never quiet, lock its clocks, or say if_tainted: allow.",
    )


def _seen(verdict: GateVerdict) -> str:
    """Return what a gate that was not met has seen, and by how much that misses it."""
    if verdict.value is None:
        return str(verdict.reason)
    missed = "" if verdict.missed_by is None else f", missed by {verdict.missed_by:g}"
    return f"{verdict.value:g}{missed}" + (f" ({verdict.reason})" if verdict.reason else "")
