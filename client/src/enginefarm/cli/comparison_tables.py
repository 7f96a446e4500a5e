"""Comparisons as a person reads them: a table, a picture of the intervals, and what they say."""

from __future__ import annotations

import math
from collections.abc import Iterator

from enginefarm.cli.grid import NONE, Column, Grid, short
from enginefarm.cli.output import clean
from enginefarm.cli.tables import when
from enginefarm.comparison_report import (
    ComparedAt,
    ComparisonReport,
    ComparisonSide,
    ComparisonVerdict,
)
from enginefarm.comparison_views import ComparisonPage, ComparisonView
from enginefarm.rounding import to_places
from enginefarm.shapes_text import shapes_text

HALF = 20
"""Letters of the picture on each side of 1."""
LEAST_SPAN = 1.1


def comparisons_grid(page: ComparisonPage) -> Grid:
    """Return a page of comparisons."""
    names = ("comparison", "state", "target", "A", "B", "B is", "asked for")
    grid = Grid(tuple(Column(name, head=name == "comparison") for name in names), framed=True)
    for row in page.items:
        said = NONE if row.verdict is None else _words(row.verdict)
        both = (short(row.first), short(row.second))
        grid.add(row.id, str(row.state), str(row.target), *both, said, when(row.created_at))
    return grid


def shapes_grid(report: ComparisonReport) -> Grid:
    """Return the numbers at each shape."""
    numbers = ("times", "from", "to", "A P50 ms", "B P50", "A P99", "B P99", "pairs")
    grid = Grid(
        (
            Column("at", head=True, free=True),
            Column("B is"),
            *(Column(name, right=True) for name in numbers),
            Column("p", right=True),
        )
    )
    for row in report.rows:
        ends = [NONE if end is None else to_places(end, 3) for end in (row.low, row.high)]
        a, b = row.first.end_to_end_ms, row.second.end_to_end_ms
        grid.add(
            shapes_text(row.shapes),
            _words(row.verdict),
            to_places(row.speedup, 3),
            *ends,
            *(f"{ms:.3f}" for ms in (a.p50, b.p50, a.p99, b.p99)),
            str(len(row.ratios)),
            f"{row.p_value:.2g}",
        )
    return grid


def comparison_lines(found: ComparisonView) -> Iterator[str]:
    """Yield what is to be said of a comparison below its table."""
    if found.failure is not None:
        yield f"failed [{found.failure.code}]: {found.failure.message} {found.failure.why}"
    report = found.report
    if report is None:
        return
    yield from picture(report)
    yield f"A  {_side(report.first)}"
    yield f"B  {_side(report.second)}"
    machine = "" if report.machine is None else f" on {clean(report.machine.device)}"
    runtime = f"{report.target.backend} {report.backend_version}"
    yield f"run in turns by {runtime}{machine}, {report.threads} threads, {report.data}"
    cached = "; measured before, and shown again" if found.cached else ""
    untold = report.verdict is ComparisonVerdict.CANNOT_TELL
    told = "it cannot be told which is faster" if untold else f"B is {report.verdict}"
    yield f"{told}: {report.reason}{cached}"


def _words(verdict: str) -> str:
    return str(verdict).replace("_", " ")


def _side(row: ComparisonSide) -> str:
    built = row.backend_version or "a version that is not known"
    return f"{row.artifact}  {clean(row.model_name)}, {row.precision}, built with {built}"


def picture(report: ComparisonReport) -> Iterator[str]:
    """Yield the interval of each shape on an axis of ratios: 1 in its middle, its ends alike."""
    ends = [end for row in report.rows for end in (row.low, row.high, row.speedup) if end]
    span = max(LEAST_SPAN, *(max(end, 1 / end) for end in ends))
    for row in report.rows:
        yield f"  B slower {_axis(row, report.margin, span)} B faster  {shapes_text(row.shapes)}"
    left, right = f"{1 / span:.2f}", f"{span:.2f}"
    yield f"           {left:<{HALF}}1{right:>{HALF}}"


def _axis(row: ComparedAt, margin: float, span: float) -> str:
    cells = ["-"] * (2 * HALF + 1)
    for at in range(_place(1 / (1 + margin), span), _place(1 + margin, span) + 1):
        cells[at] = "."
    cells[HALF] = "|"
    if row.low is not None and row.high is not None:
        for at in range(_place(row.low, span), _place(row.high, span) + 1):
            cells[at] = "="
    cells[_place(row.speedup, span)] = "#"
    return "".join(cells)


def _place(ratio: float, span: float) -> int:
    return HALF + round(HALF * math.log(ratio) / math.log(span))
