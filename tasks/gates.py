"""Gates: bounds on what was measured. Pure. What was not measured meets no gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from enginefarm.report import AccuracyReport, BuildReport, GateVerdict, OutputAccuracy
from enginefarm.spec import Gate, Metric

_PER_OUTPUT: dict[Metric, tuple[Callable[[OutputAccuracy], float | None], bool]] = {
    # metric: how to read it, and whether more is better
    Metric.COSINE: (lambda row: row.cosine, True),
    # Before schema 2 of the report ``cosine`` was the worst sample's.
    Metric.COSINE_WORST: (
        lambda row: row.cosine if row.cosine_worst is None else row.cosine_worst,
        True,
    ),
    Metric.SNR_DB: (lambda row: float("inf") if row.exact else row.snr_db, True),
    Metric.MAX_ABS_ERROR: (lambda row: row.max_abs_error, False),
    Metric.MEAN_ABS_ERROR: (lambda row: row.mean_abs_error, False),
    Metric.TOP1_AGREEMENT: (lambda row: row.top1_agreement, True),
}


def judge(gates: Sequence[Gate], report: BuildReport) -> list[GateVerdict]:
    """Return a verdict for each gate that applies to the report's target."""
    return [
        _judge(gate, report)
        for gate in gates
        if gate.target is None or gate.target == report.target
    ]


def describe(gate: Gate) -> str:
    """Return a gate in the words of the command line: ``cosine >= 0.999``."""
    bounds = []
    if gate.at_least is not None:
        bounds.append(f"{gate.metric} >= {_exact(gate.at_least)}")
    if gate.at_most is not None:
        bounds.append(f"{gate.metric} <= {_exact(gate.at_most)}")
    place = f" on output {gate.output}" if gate.output else ""
    return " and ".join(bounds) + place


def _exact(bound: float) -> str:
    """Return every digit, since this is signed: ``0.99999999``, ``123456789``."""
    return repr(bound).removesuffix(".0")


def _judge(gate: Gate, report: BuildReport) -> GateVerdict:
    value, reason = _value(gate, report)
    if value is None:
        return GateVerdict(gate=describe(gate), value=None, met=False, reason=reason)
    above = gate.at_least is None or value >= gate.at_least
    below = gate.at_most is None or value <= gate.at_most
    # An exact match has an infinite ratio of signal to noise; JSON has no infinity.
    shown = None if value == float("inf") else value
    return GateVerdict(
        gate=describe(gate),
        value=shown,
        met=above and below,
        reason=None if shown is not None else "the outputs are exactly equal",
    )


def _value(gate: Gate, report: BuildReport) -> tuple[float | None, str | None]:
    if gate.metric is Metric.ENGINE_BYTES:
        return float(report.compile.engine_bytes), None
    if gate.metric in {Metric.LATENCY_P50_MS, Metric.LATENCY_P99_MS}:
        return _latency(gate, report)
    if report.accuracy is None:
        return None, report.reason or report.accuracy_reason or "accuracy was not measured"
    return _of_outputs(gate, report.accuracy)


def _of_outputs(gate: Gate, accuracy: AccuracyReport) -> tuple[float | None, str | None]:
    rows = [row for row in accuracy.outputs if gate.output is None or row.output == gate.output]
    fault = _incomparable(gate, accuracy, rows)
    if fault is not None:
        return None, fault
    read, more_is_better = _PER_OUTPUT[gate.metric]
    # An output for which the metric has no meaning (top-1 of what is no score) is left out.
    values = [value for value in map(read, rows) if value is not None]
    if not values:
        return None, f"{gate.metric} has no meaning for these outputs"
    return (min(values) if more_is_better else max(values)), None


def _incomparable(
    gate: Gate, accuracy: AccuracyReport, rows: Sequence[OutputAccuracy]
) -> str | None:
    if gate.output in accuracy.not_compared:
        return f"output {gate.output!r} was not compared: it is no tensor of numbers"
    if not rows:
        return f"there is no output {gate.output!r}"
    empty = [row.output for row in rows if row.elements and row.nonfinite_reference >= row.elements]
    if empty:
        return f"the original gives no finite number on output {empty[0]!r}"
    unknown = next((row for row in rows if row.nan_reference), None)
    if unknown is not None:
        return (
            f"the original gives NaN in {unknown.nan_reference} of {unknown.elements} values of"
            f" output {unknown.output!r}"
        )
    return None


def _latency(gate: Gate, report: BuildReport) -> tuple[float | None, str | None]:
    if not report.latency:
        return None, report.reason or "latency was not measured"
    p50 = gate.metric is Metric.LATENCY_P50_MS
    return max(
        row.end_to_end_ms.p50 if p50 else row.end_to_end_ms.p99 for row in report.latency
    ), None
