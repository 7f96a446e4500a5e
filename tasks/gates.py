"""Gates: bounds on what was measured. Pure. What was not measured meets no gate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from enginefarm.accuracy_report import why_lost
from enginefarm.comparable import tainted
from enginefarm.gate import Gate, Metric, Tainted
from enginefarm.report import AccuracyReport, BuildReport, GateVerdict, OutputAccuracy
from enginefarm.rounding import rounded
from tasks.degradation import NotComparable, Unreliable, pairs_of
from tasks.readings import (
    LATENCIES,
    OF_METRIC,
    PER_OUTPUT,
    accuracy_of,
    at_profiles,
    why_no_accuracy,
)

Named = Mapping[str, BuildReport | str]
"""The reports of the artifacts that gates name, by digest; or why there is none."""


def judge(
    gates: Sequence[Gate], report: BuildReport, named: Named | None = None
) -> list[GateVerdict]:
    """Return a verdict for each gate that applies to the report's target."""
    return [
        _judge(gate, report) if gate.against is None else _compare(gate, report, named or {})
        for gate in applying(gates, report)
    ]


def applying(gates: Sequence[Gate], report: BuildReport) -> list[Gate]:
    """Return the gates that apply to a report's target."""
    return [gate for gate in gates if gate.target is None or gate.target == report.target]


def judged_at_compile(gate: Gate) -> bool:
    """Tell whether a gate looks at what is the same on every device."""
    return gate.metric is Metric.ENGINE_BYTES or gate.metric.of_model_file


def describe(gate: Gate) -> str:
    """Return a gate in the words of the command line: ``cosine >= 0.999``."""
    bounds = []
    if gate.at_least is not None:
        bounds.append(f"{gate.metric} >= {_exact(gate.at_least)}")
    if gate.at_most is not None:
        bounds.append(f"{gate.metric} <= {_exact(gate.at_most)}")
    if gate.against is not None:
        bounds.append(f"{gate.metric} at most {_allowed(gate)} worse")
    place = f" on output {gate.output}" if gate.output else ""
    than = f" than {gate.against}" if gate.against else ""
    trusting = ", tainted or not" if gate.if_tainted is Tainted.ALLOW else ""
    return " and ".join(bounds) + place + than + trusting


def _allowed(gate: Gate) -> str:
    if gate.worse_by_percent is not None:
        return f"{_exact(gate.worse_by_percent)} %"
    return _exact(gate.worse_by or 0.0)


def _exact(bound: float) -> str:
    """Return every digit, since this is signed: ``0.99999999``, ``123456789``."""
    return repr(bound).removesuffix(".0")


def _judge(gate: Gate, report: BuildReport) -> GateVerdict:
    value, reason = _value(gate, report)
    if value is None:
        return GateVerdict(gate=describe(gate), value=None, met=False, reason=reason)
    below = 0.0 if gate.at_least is None else gate.at_least - value
    above = 0.0 if gate.at_most is None else value - gate.at_most
    missed = max(below, above, 0.0)
    # An exact match has an infinite ratio of signal to noise; JSON has no infinity.
    shown = _finite(value)
    doubt = _doubt(gate, report)
    exact = None if shown is not None else "the outputs are exactly equal"
    return GateVerdict(
        gate=describe(gate),
        value=shown,
        met=missed == 0 and doubt is None,
        missed_by=_finite(missed) if missed else None,
        reason=doubt or exact,
        tainted=doubt is not None,
    )


def _doubt(gate: Gate, report: BuildReport) -> str | None:
    """Tell why a gate does not believe a latency, however small it is."""
    if gate.metric not in LATENCIES or gate.if_tainted is Tainted.ALLOW:
        return None
    return tainted(at_profiles(report))


def _compare(gate: Gate, report: BuildReport, named: Named) -> GateVerdict:
    """Hold a report against that of the artifact that the gate names."""
    other = named.get(gate.against or "", "its report is not there")
    if isinstance(other, str):
        return _not_comparable(gate, other)
    told = accuracy_of(gate.metric, report)
    fault = None if told is None else _faulty(gate, told)
    if fault is not None:
        return _not_comparable(gate, fault)
    try:
        pairs, more_is_better = pairs_of(gate, report, other)
    except NotComparable as error:
        doubted = isinstance(error, Unreliable)
        return _not_comparable(gate, str(error)).model_copy(update={"tainted": doubted})
    percent = gate.worse_by_percent is not None
    found = [(each.worse(more_is_better=more_is_better, percent=percent), each) for each in pairs]
    worse, pair = max(found, key=lambda row: row[0])
    missed = worse - ((gate.worse_by_percent if percent else gate.worse_by) or 0.0)
    said = f"{_number(pair.now)} against {_number(pair.then)} {pair.place}".strip()
    return GateVerdict(
        gate=describe(gate),
        value=_finite(worse),
        met=missed <= 0,
        missed_by=_finite(missed) if missed > 0 else None,
        reason=said,
    )


def _not_comparable(gate: Gate, why: str) -> GateVerdict:
    return GateVerdict(gate=describe(gate), value=None, met=False, reason=f"not comparable: {why}")


def _faulty(gate: Gate, accuracy: AccuracyReport) -> str | None:
    """Return what keeps any number of an output from meaning anything."""
    if gate.metric in OF_METRIC and accuracy.metric is not None:
        judged = accuracy.metric.output
        return why_lost(row for row in accuracy.outputs if row.output == judged)
    if gate.metric.plain not in PER_OUTPUT:
        return None
    rows = [row for row in accuracy.outputs if gate.output in {None, row.output}]
    return _incomparable(gate, accuracy, rows)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float) -> str:
    return "exactly equal" if math.isinf(value) else rounded(value)


def _value(gate: Gate, report: BuildReport) -> tuple[float | None, str | None]:
    if gate.metric is Metric.ENGINE_BYTES:
        return float(report.compile.engine_bytes), None
    if gate.metric in LATENCIES:
        return _latency(gate, report)
    told = accuracy_of(gate.metric, report)
    if told is None:
        return None, why_no_accuracy(gate.metric, report)
    if gate.metric in OF_METRIC:
        return _of_metric(gate, told)
    return _of_outputs(gate, told)


def _of_metric(gate: Gate, accuracy: AccuracyReport) -> tuple[float | None, str | None]:
    found = accuracy.metric
    if found is None:
        return None, "the build has no evaluation_metric"
    lost = why_lost(row for row in accuracy.outputs if row.output == found.output)
    if lost is not None:
        return None, lost
    value = found.loss if gate.metric is Metric.METRIC_LOSS else found.engine
    return value, found.reason or (None if value is not None else "it was not computed")


def _of_outputs(gate: Gate, accuracy: AccuracyReport) -> tuple[float | None, str | None]:
    rows = [row for row in accuracy.outputs if gate.output is None or row.output == gate.output]
    fault = _incomparable(gate, accuracy, rows)
    if fault is not None:
        return None, fault
    read, more_is_better = PER_OUTPUT[gate.metric.plain]
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
    return why_lost(rows)


def _latency(gate: Gate, report: BuildReport) -> tuple[float | None, str | None]:
    rows = at_profiles(report)
    if not rows:
        return None, report.reason or "latency was not measured"
    return max(map(LATENCIES[gate.metric], rows)), None
