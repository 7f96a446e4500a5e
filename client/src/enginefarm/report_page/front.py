"""A search as one HTML page that needs nothing: its candidates, the front, and what was chosen."""

from __future__ import annotations

from collections.abc import Sequence

from enginefarm.report_page.markup import NONE, Markup, join, number, table, tag
from enginefarm.report_page.page import document
from enginefarm.report_page.plots import BOTTOM, LEFT, RIGHT, TOP, WIDTH, drawing, label, place
from enginefarm.search_views import AccuracyOf, CandidateView, Outcome, SearchView
from enginefarm.search_words import (
    front_words,
    met_words,
    precision_words,
    profile_words,
    state_words,
)

_HEIGHT = 320.0
_EXACT = 1.0


def render_search(search: SearchView) -> bytes:
    """Return the page of a search; the same search gives the same bytes."""
    return document(
        f"Search: {search.model_name} for {search.target}",
        tag("h1", f"Precision of {search.model_name} for {search.target}"),
        tag("p", search.verdict or f"It is {search.state}."),
        *(tag("p", note, class_="note") for note in search.notes),
        _section("Accuracy and cost", scatter(search)),
        _section("Candidates", _rows(search)),
    )


def scatter(search: SearchView) -> Markup:
    """Return the candidates by what they cost and how near they are; the front is a line.

    The cost is the P99 where all engines were run, else the engine's size. A P99 that is tainted is
    drawn and said to be so; where all of them are, the size is the cost.
    """
    built = [row for row in search.candidates if row.outcome and row.outcome.artifact]
    timed = all(row.outcome and row.outcome.latency_p99_ms is not None for row in built)
    timed = timed and not all(row.outcome and row.outcome.tainted for row in built)
    points = [
        (cost, near, row)
        for row in built
        if row.outcome is not None
        and (cost := _cost(row.outcome, timed=timed)) is not None
        and (near := _near(row.outcome)) is not None
    ]
    if not points:
        return tag("p", "No candidate has become an engine.")
    return _plot(points, search.chosen, timed=timed)


def _cost(told: Outcome, *, timed: bool) -> float | None:
    return told.latency_p99_ms if timed else told.engine_bytes


def _near(told: Outcome) -> float | None:
    return _EXACT if told.accuracy_of is AccuracyOf.ORIGINAL else told.cosine


def _plot(
    points: Sequence[tuple[float, float, CandidateView]], chosen: int | None, *, timed: bool
) -> Markup:
    unit = "P99 in ms" if timed else "bytes of the engine"
    inner, floor = WIDTH - LEFT - RIGHT, _HEIGHT - BOTTOM
    right = max(cost for cost, _, _ in points) * 1.05 or 1.0
    low, high = min(near for _, near, _ in points), max(near for _, near, _ in points)
    span = max(high - low, 1e-6)

    def at(cost: float, near: float) -> tuple[float, float]:
        return LEFT + inner * cost / right, floor - (floor - TOP - 14) * (near - low) / span

    parts: list[Markup] = []
    line_of = [each for each in points if each[2].on_front and not _tainted(each[2], timed=timed)]
    front = sorted((cost, near) for cost, near, _ in line_of)
    line = " ".join(f"{place(x)},{place(y)}" for x, y in (at(*each) for each in front))
    if len(front) > 1:
        parts.append(tag("polyline", points=Markup(line), class_="mid"))
    for cost, near, row in points:
        x, y = at(cost, near)
        size = "6" if row.number == chosen else "4"
        kind = "bar" if row.outcome is not None and row.outcome.met else "mean"
        parts += [
            tag("circle", cx=place(x), cy=place(y), r=size, class_=kind),
            label(x + 8, y + 4, _named(row, timed=timed), "start"),
        ]
    parts += [
        tag("line", x1=place(LEFT), y1=place(floor), x2=place(WIDTH - RIGHT), y2=place(floor)),
        label(LEFT - 6, TOP + 14, number(high), "end"),
        label(LEFT - 6, floor, number(low), "end"),
        label(LEFT, floor + 14, "0", "start"),
        label(WIDTH - RIGHT, floor + 14, number(right), "end"),
        label(WIDTH / 2, _HEIGHT - 4, f"cosine over {unit}; blue: meets all", "middle"),
    ]
    return drawing("Candidates by cosine and cost", _HEIGHT, *parts)


def _named(row: CandidateView, *, timed: bool) -> str:
    return f"{row.number} (tainted)" if _tainted(row, timed=timed) else str(row.number)


def _tainted(row: CandidateView, *, timed: bool) -> bool:
    """Tell whether what a candidate is drawn by cannot be relied on."""
    return timed and row.outcome is not None and bool(row.outcome.tainted)


def _rows(search: SearchView) -> Markup:
    heads = ["#", "precision", "profile", "why", "state", "meets all", "front", "artifact"]
    heads += ["cosine", "P50 ms", "P99 ms", "memory", "engine bytes"]
    return table(heads, [_cells(search, row) for row in search.candidates], left=8)


def _cells(search: SearchView, row: CandidateView) -> list[str]:
    told = row.outcome or Outcome()
    state = state_words(search, row) or NONE
    met = met_words(told) or NONE
    named = [str(row.number), precision_words(row.precision), profile_words(row), row.why]
    told_of = [*named, state, met, front_words(search, row)]
    numbers = (told.latency_p50_ms, told.latency_p99_ms, told.memory_bytes, told.engine_bytes)
    shown = [number(each) for each in numbers]
    if told.tainted:
        shown[:2] = [each if each == NONE else f"{each} (tainted)" for each in shown[:2]]
    return [*told_of, told.artifact or NONE, number(_near(told)), *shown]


def _section(name: str, shown: Markup) -> Markup:
    return join(tag("h2", name), shown)
