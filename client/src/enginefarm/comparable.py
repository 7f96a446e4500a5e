"""Whether two measurements may be held against each other: same kind of device, same data. Pure.

Each function returns why not, in words, or None if they may.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from enginefarm.report import AccuracyReport, LatencyReport, Machine, MetricReport
from enginefarm.shapes_text import shapes_text


def machines_differ(one: Machine | None, other: Machine | None) -> str | None:
    """Compare the kind of device, and not which of its kind it is.

    On a GPU that is its name, on a processor its model and the number of cores.
    """
    if one is None or other is None:
        return "on which machine they were measured is not known of both"
    if one.device != other.device:
        return f"one was measured on {one.device}, the other on {other.device}"
    if one.device == "cpu" and one.cpu != other.cpu:
        return f"one was measured on {one.cpu}, the other on {other.cpu}"
    if one.device == "cpu" and one.cores != other.cores:
        return f"one was measured on {one.cores} cores, the other on {other.cores}"
    return None


def side_by_side(
    ones: Sequence[LatencyReport], others: Sequence[LatencyReport]
) -> Iterator[tuple[LatencyReport, LatencyReport | None]]:
    """Yield each latency with the other's at the same shapes; of several, each in its turn."""
    left = list(others)
    for one in ones:
        found = next((row for row in left if row.shapes == one.shapes), None)
        if found is not None:
            left.remove(found)
        yield one, found


def runs_differ(one: LatencyReport, other: LatencyReport) -> str | None:
    """Compare how two latencies were measured."""
    if one.shapes != other.shapes:
        return "they were measured at other shapes"
    if one.threads != other.threads:
        return f"one was measured with {one.threads} threads, the other with {other.threads}"
    return None


def tainted(rows: Sequence[LatencyReport]) -> str | None:
    """Tell why latencies cannot be relied on: what the record of the first such one names."""
    for row in rows:
        if row.trust is not None and row.trust.tainted:
            at = f" at {shapes_text(row.shapes)}" if len(rows) > 1 else ""
            return f"latency was tainted{at}: {'; '.join(row.trust.tainted)}"
    return None


def which_tainted(a: LatencyReport, b: LatencyReport) -> str | None:
    """Tell of which of two latencies nothing can be concluded, and why."""
    told = (("A", tainted([a])), ("B", tainted([b])))
    return "; ".join(f"of {side} {why}" for side, why in told if why is not None) or None


def data_differ(one: AccuracyReport, other: AccuracyReport) -> str | None:
    """Compare what two accuracies were measured on."""
    if one.data != other.data:
        return f"one was measured on {one.data}, the other on {other.data}"
    if one.samples != other.samples:
        return f"one was measured on {one.samples} samples, the other on {other.samples}"
    return None


def metrics_differ(one: MetricReport, other: MetricReport) -> str | None:
    """Compare what two metrics by labels are of."""
    if (one.name, one.output, one.labels) != (other.name, other.output, other.labels):
        first, second = (f"{row.name}[{row.output}]={row.labels}" for row in (one, other))
        return f"one is {first}, the other {second}"
    if one.engine is None or other.engine is None:
        return one.reason or other.reason or "one of them was not computed"
    return None
