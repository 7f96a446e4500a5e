"""Whether a precision is worth it: accurate enough, and faster than its twin. Pure.

The worst output and the slowest shape decide. Accuracy is the engine's where it could be run, else
that of the model file. Speed is only what was measured side by side, in one process on one device,
while nothing disturbed it: nothing is concluded from another run, machine or day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from enginefarm.accuracy_report import why_lost
from enginefarm.gate import Gate
from enginefarm.median_interval import median_interval
from enginefarm.precision import OnSlower, Precision, PrecisionKind
from enginefarm.report import AccuracyReport, BuildReport, GateVerdict, OutputAccuracy
from enginefarm.rounding import rounded
from enginefarm.shapes_text import shapes_text
from enginefarm.verdict_report import (
    CONFIDENCE,
    LONGER,
    MARGIN,
    FloorReport,
    PairedRuns,
    PrecisionVerdict,
    SpeedReport,
    TwinReport,
    VerdictReport,
)
from tasks.readings import OF_METRIC, PER_OUTPUT

FAINT = 1.2e-4
"""Below this an output is what fp32 rounds away, and its cosine says nothing."""


@dataclass(frozen=True)
class Beside:
    """What is known of the twin, and of both side by side."""

    twin: TwinReport | None
    rows: Sequence[PairedRuns] = ()
    reason: str = "no twin was planned"
    """Why there are no rows."""


def verdict_on(
    asked: Precision,
    report: BuildReport,
    judged: Sequence[tuple[Gate, GateVerdict]],
    beside: Beside,
    *,
    lets_lost_out: bool = False,
) -> VerdictReport | None:
    """Return the verdict on a report's precision; None where the build asked for none.

    ``judged``: the gates of the build that apply, with what came of them. ``lets_lost_out``: values
    that are not finite, and are in the original, keep nothing back by themselves.
    """
    if asked.kind is PrecisionKind.AS_IS:
        return None
    floor, floor_reason = _floor(asked, report)
    speed = [speed_of(row) for row in beside.rows]
    lost, missed = _lost(report), _missed(judged)
    wrong = missed if lost is None else [lost, *missed]
    verdict, reason = _decide(
        floor, floor_reason, wrong, speed, beside.twin, speed_reason=beside.reason
    )
    on_slower = asked.on_slower or OnSlower.QUARANTINE
    kept = verdict is PrecisionVerdict.SLOWER and on_slower is OnSlower.QUARANTINE
    kept |= verdict is PrecisionVerdict.REGRESSION and not (lets_lost_out and wrong == [lost])
    return VerdictReport(
        verdict=verdict,
        reason=reason,
        held_back=kept,
        on_slower=on_slower,
        twin=beside.twin,
        speed=speed,
        speed_reason=None if speed else beside.reason,
        floor=floor,
        floor_reason=floor_reason,
    )


def speed_of(row: PairedRuns) -> SpeedReport:
    """Return how much faster the engine is at one shape, and how sure that is."""
    ordered, count = sorted(row.ratios), len(row.ratios)
    speedup = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    found = median_interval(row.ratios, CONFIDENCE)
    shown = found is not None and found.low > 1 and speedup >= 1 + MARGIN
    faster = shown and not _doubts(row)
    return SpeedReport(
        **row.model_dump(),
        speedup=speedup,
        low=None if found is None else found.low,
        high=None if found is None else found.high,
        confidence=None if found is None else found.confidence,
        faster=faster,
    )


def _decide(
    floor: FloorReport | None,
    floor_reason: str | None,
    missed: list[str],
    speed: list[SpeedReport],
    twin: TwinReport | None,
    *,
    speed_reason: str,
) -> tuple[PrecisionVerdict | None, str]:
    low = floor is not None and floor.missed_by is not None
    if low or missed:
        told = [_floor_words(floor)] if floor is not None and low else []
        return PrecisionVerdict.REGRESSION, "; ".join([*told, *missed])
    if not speed or twin is None:
        return None, f"speed is not known: {speed_reason}"
    # What is slower at one shape stays so, whatever is believed of the others.
    worst = min(speed, key=lambda row: (bool(_doubts(row)), row.faster, row.open, row.speedup))
    doubted = next((row for row in speed if _doubts(row)), None)
    if doubted is not None and (worst.faster or _doubts(worst)):
        return None, f"speed is not known: {_doubt_words(doubted)}"
    if not worst.faster:
        told = [_open_words(worst)] if worst.open else []
        return PrecisionVerdict.SLOWER, "; ".join([*told, _speed_words(worst, twin), _wanted()])
    if floor is None:
        return None, f"{_speed_words(worst, twin)}, but accuracy is not known: {floor_reason}"
    return PrecisionVerdict.ACCEPT, f"{_speed_words(worst, twin)}; {_floor_words(floor)}"


def _doubts(row: PairedRuns) -> list[str]:
    """Return what speaks against what was measured beside the twin."""
    return [] if row.trust is None else row.trust.tainted


def _doubt_words(row: SpeedReport) -> str:
    return f"it was tainted at {shapes_text(row.shapes)}: {'; '.join(_doubts(row))}"


def _missed(judged: Sequence[tuple[Gate, GateVerdict]]) -> list[str]:
    """Return the gates on accuracy that were measured and missed, in words."""
    return [
        f"gate {verdict.gate}: {verdict.value:g}, missed by {verdict.missed_by:g}"
        for gate, verdict in judged
        if gate.metric.plain in PER_OUTPUT or gate.metric in OF_METRIC
        if not verdict.met and verdict.value is not None and verdict.missed_by is not None
    ]


def _told(report: BuildReport) -> tuple[AccuracyReport | None, str]:
    """Return the accuracy that is judged, and of what it is."""
    if report.accuracy is None and report.precision is not None:
        return report.precision.model_accuracy, "model file"
    return report.accuracy, "engine"


def _lost(report: BuildReport) -> str | None:
    told, _ = _told(report)
    return None if told is None else why_lost(told.outputs)


def _floor(asked: Precision, report: BuildReport) -> tuple[FloorReport | None, str | None]:
    """Return the output that lost most, or why none is judged."""
    told, of = _told(report)
    if told is None:
        return None, report.accuracy_reason or report.reason or "it was not measured"
    unknown = next((row.output for row in told.outputs if row.nan_reference), None)
    if unknown is not None:
        return None, f"the original gives NaN on output {unknown!r}"
    lost = why_lost(told.outputs)
    if lost is not None:
        return None, lost
    rows = [(row.cosine, row.output) for row in told.outputs if _has_signal(row)]
    values = [(cosine, output) for cosine, output in rows if cosine is not None]
    if not values:
        return None, _nothing_judged(told)
    value, output = min(values)
    least = asked.least_cosine
    missed = least - value if value < least else None
    return FloorReport(of=of, output=output, least=least, value=value, missed_by=missed), None


def _has_signal(row: OutputAccuracy) -> bool:
    """Tell whether an output, or its error, is more than what fp32 rounds away."""
    strongest = row.reference_max_abs
    return strongest is None or max(strongest, row.max_abs_error) >= FAINT


def _nothing_judged(told: AccuracyReport) -> str:
    return f"on {told.data} every output is near zero"


def _speed_words(row: SpeedReport, twin: TwinReport) -> str:
    at = shapes_text(row.shapes)
    sure = f"{row.confidence:.1%}: {_reach(row)}" if row.confidence else "unsure"
    times = f"{row.engine_p50_ms:.4g} ms to {row.twin_p50_ms:.4g} ms"
    faster = f"{rounded(row.speedup, digits=3)} times as fast as {_named(twin)}"
    return f"{faster} at {at} ({sure}; {times})"


def _open_words(row: SpeedReport) -> str:
    return f"not shown to be faster: {_reach(row) or 'too few pairs of windows'}; {LONGER}"


def _reach(row: SpeedReport) -> str | None:
    if row.low is None or row.high is None:
        return None
    return f"{rounded(row.low, digits=3)} to {rounded(row.high, digits=3)}"


def _named(twin: TwinReport) -> str:
    as_it_came = twin.precision is PrecisionKind.AS_IS
    return "the model as it came" if as_it_came else f"in {twin.precision}"


def _wanted() -> str:
    return f"it must be above 1 with {CONFIDENCE:.0%} confidence, and at least {1 + MARGIN:g}"


def _floor_words(floor: FloorReport) -> str:
    missed = "" if floor.missed_by is None else f", missed by {floor.missed_by:.3g}"
    return (
        f"{floor.metric} of {floor.output} is {rounded(floor.value)} ({floor.of}), at least"
        f" {floor.least:g}{missed}"
    )
