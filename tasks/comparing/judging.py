"""Which of two artifacts is faster, from windows that took turns. Pure.

The ratios of pairs decide. Of each pair both windows saw the same machine, so a drift that both
follow is not in their ratio; what is left widens the interval of the median, of which nothing else
is assumed. The interval must lie on one side of 1, and its median by at least the margin, to call
one faster; it must lie within the margin to call both alike. Whatever reaches over more than one of
these is not known. Ranks of single runs, which do follow a drift, only have a veto.
"""

from __future__ import annotations

from collections.abc import Sequence

from enginefarm.comparison_report import (
    CONFIDENCE,
    MARGIN,
    ComparedAt,
    ComparedRuns,
    ComparisonVerdict,
)
from enginefarm.median_interval import Interval, median_interval
from enginefarm.rank_test import rank_test
from enginefarm.rounding import rounded
from enginefarm.shapes_text import shapes_text

_EVEN = 0.5
Judged = tuple[ComparisonVerdict, str]


def judged_at(row: ComparedRuns) -> ComparedAt:
    """Return the verdict at one shape, with its numbers."""
    ordered, count = sorted(row.ratios), len(row.ratios)
    speedup = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    found = median_interval(row.ratios, CONFIDENCE)
    test = rank_test(row.first.runs_ms, row.second.runs_ms)
    verdict, why = _decide(row.trust.tainted, found, speedup, test.above)
    return ComparedAt(
        **row.model_dump(),
        speedup=speedup,
        low=None if found is None else found.low,
        high=None if found is None else found.high,
        confidence=None if found is None else found.confidence,
        p_value=test.p_value,
        second_takes_longer=test.above,
        verdict=verdict,
        why=why,
    )


def overall(rows: Sequence[ComparedAt]) -> Judged:
    """Return what is said of all shapes together."""
    said = {row.verdict for row in rows}
    told = "; ".join(f"{row.verdict} at {shapes_text(row.shapes)}: {row.why}" for row in rows)
    if len(rows) == 1:
        return rows[0].verdict, rows[0].why
    if ComparisonVerdict.CANNOT_TELL in said:
        return ComparisonVerdict.CANNOT_TELL, told
    if said >= {ComparisonVerdict.FASTER, ComparisonVerdict.SLOWER}:
        return ComparisonVerdict.CANNOT_TELL, f"it depends on the shape: {told}"
    for verdict in (ComparisonVerdict.SLOWER, ComparisonVerdict.FASTER):
        if verdict in said:
            return verdict, told
    return ComparisonVerdict.ALIKE, told


def _decide(tainted: Sequence[str], found: Interval | None, speedup: float, above: float) -> Judged:
    """Return the verdict on the second, and why."""
    unknown = ComparisonVerdict.CANNOT_TELL
    if tainted:
        return unknown, f"the measurement cannot be relied on: {'; '.join(tainted)}"
    if found is None:
        return unknown, f"too few pairs of windows for {CONFIDENCE:.0%} confidence"
    times, low, high = (rounded(each, digits=4) for each in (speedup, found.low, found.high))
    said = f"{times} times as fast, {low} to {high} ({found.confidence:.1%})"
    if found.low >= 1 / (1 + MARGIN) and found.high <= 1 + MARGIN:
        return ComparisonVerdict.ALIKE, f"{said}: less than {MARGIN:.0%} either way"
    faster = found.low > 1 and speedup >= 1 + MARGIN
    slower = found.high < 1 and speedup <= 1 / (1 + MARGIN)
    if not faster and not slower:
        return unknown, f"{said}: it may be {MARGIN:.0%} or more, or not; measure for longer"
    if (above < _EVEN) is not faster:
        return unknown, f"{said}, but single runs point the other way: measure for longer"
    return (ComparisonVerdict.FASTER if faster else ComparisonVerdict.SLOWER), said
