"""How much worse one engine is than another, for gates against a published artifact. Pure.

Only what was measured on the same kind of device, on the same data and at the same shapes is held
against each other; the worst output and the slowest shape decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from enginefarm.comparable import (
    data_differ,
    machines_differ,
    metrics_differ,
    runs_differ,
    side_by_side,
    tainted,
)
from enginefarm.gate import Gate, Metric, Tainted
from enginefarm.report import AccuracyReport, BuildReport, LatencyReport
from tasks.readings import (
    LATENCIES,
    OF_METRIC,
    PER_OUTPUT,
    accuracy_of,
    at_profiles,
    why_no_accuracy,
)


class NotComparable(Exception):
    """Two reports cannot be held against each other; says why."""


class Unreliable(NotComparable):
    """The new one cannot, since its own number cannot be relied on: measuring again may help."""


@dataclass(frozen=True)
class Pair:
    """One number of both, and where it was measured."""

    place: str
    now: float
    then: float

    def worse(self, *, more_is_better: bool, percent: bool) -> float:
        """Return by how much it is worse now, or by how many percent of what it was.

        Below zero it is better.
        """
        if self.now == self.then:
            return 0.0
        worse = self.then - self.now if more_is_better else self.now - self.then
        if not percent:
            return worse
        return 100 * worse / abs(self.then) if self.then else math.copysign(math.inf, worse)


def pairs_of(gate: Gate, now: BuildReport, then: BuildReport) -> tuple[Sequence[Pair], bool]:
    """Return the numbers that a gate compares, and whether more of them is better.

    Raises:
        NotComparable: says why.
    """
    if gate.metric is Metric.ENGINE_BYTES:
        return [Pair("", now.compile.engine_bytes, then.compile.engine_bytes)], False
    if gate.metric in LATENCIES:
        if gate.if_tainted is Tainted.FAIL:
            _refuse_tainted(now, then)
        return _latencies(gate.metric, now, then), False
    left, right = accuracy_of(gate.metric, now), accuracy_of(gate.metric, then)
    if left is None or right is None:
        raise NotComparable(why_no_accuracy(gate.metric, now if left is None else then))
    _refuse(data_differ(left, right))
    if gate.metric in OF_METRIC:
        return _metrics(gate.metric, left, right)
    read, more_is_better = PER_OUTPUT[gate.metric.plain]
    rows = {row.output: row for row in right.outputs}
    found = []
    for row in left.outputs:
        if gate.output in {None, row.output}:
            other = rows.get(row.output)
            found += _outputs(row.output, read(row), None if other is None else read(other))
    if not found:
        raise NotComparable(f"{gate.metric} has no meaning for these outputs")
    return found, more_is_better


def _refuse_tainted(now: BuildReport, then: BuildReport) -> None:
    doubt = tainted(at_profiles(now))
    if doubt is not None:
        raise Unreliable(doubt)
    doubt = tainted(at_profiles(then))
    _refuse(None if doubt is None else f"of the named artifact {doubt}")


def _latencies(metric: Metric, now: BuildReport, then: BuildReport) -> list[Pair]:
    for report in (now, then):
        if not report.latency:
            raise NotComparable(report.reason or "latency was not measured")
    _refuse(machines_differ(now.measure_machine, then.measure_machine))
    read, found = LATENCIES[metric], []
    for row, other in side_by_side(at_profiles(now), at_profiles(then)):
        if other is None:
            raise NotComparable(f"it was not measured at {_shapes(row)}")
        _refuse(runs_differ(row, other))
        found.append(Pair(f"at {_shapes(row)}", read(row), read(other)))
    return found


def _metrics(
    metric: Metric, now: AccuracyReport, then: AccuracyReport
) -> tuple[Sequence[Pair], bool]:
    left, right = now.metric, then.metric
    if left is None or right is None:
        raise NotComparable("one of them has no evaluation_metric")
    _refuse(metrics_differ(left, right))
    if metric is Metric.METRIC_LOSS:
        return [Pair("", left.loss or 0.0, right.loss or 0.0)], False
    return [Pair("", left.engine or 0.0, right.engine or 0.0)], left.name.more_is_better


def _outputs(name: str, now: float | None, then: float | None) -> list[Pair]:
    if now is None and then is None:
        return []
    if now is None or then is None:
        raise NotComparable(f"of output {name!r} only one of them has it")
    return [Pair(f"of output {name}", now, then)]


def _shapes(row: LatencyReport) -> str:
    return ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in row.shapes.items())


def _refuse(why: str | None) -> None:
    if why is not None:
        raise NotComparable(why)
