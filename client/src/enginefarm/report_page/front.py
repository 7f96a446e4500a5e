"""A search as one HTML page that needs nothing: its candidates, the front, and what was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from enginefarm.report_page.markup import NONE, Markup, join, number, table, tag
from enginefarm.report_page.page import document
from enginefarm.report_page.plots import BOTTOM, LEFT, RIGHT, TOP, WIDTH, drawing, label, place
from enginefarm.report_page.sections import facts
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
_APART = (26.0, 13.0)
"""Labels of points that are nearer to one another than this would lie on each other."""
_LATE = WIDTH - RIGHT - 60
"""A label right of this would leave the drawing, and is written to the left of its point."""
Point = tuple[float, float, CandidateView]
"""Where a candidate is drawn: across, and up or down."""


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


def _plot(points: Sequence[Point], chosen: int | None, *, timed: bool) -> Markup:
    unit = "P99 in ms" if timed else "bytes of the engine"
    inner, floor = WIDTH - LEFT - RIGHT, _HEIGHT - BOTTOM
    right = max(cost for cost, _, _ in points) * 1.05 or 1.0
    low, high = min(near for _, near, _ in points), max(near for _, near, _ in points)
    span = max(high - low, 1e-6)

    def at(cost: float, near: float) -> tuple[float, float]:
        return LEFT + inner * cost / right, floor - (floor - TOP - 14) * (near - low) / span

    line_of = [each for each in points if each[2].on_front and not _tainted(each[2], timed=timed)]
    front = sorted((cost, near) for cost, near, _ in line_of)
    line = " ".join(f"{place(x)},{place(y)}" for x, y in (at(*each) for each in front))
    parts = [tag("polyline", points=Markup(line), class_="mid")] if len(front) > 1 else []
    placed = [(*at(cost, near), row) for cost, near, row in points]
    for x, y, row in placed:
        size = "6" if row.number == chosen else "4"
        kind = "bar" if row.outcome is not None and row.outcome.met else "mean"
        parts.append(tag("circle", cx=place(x), cy=place(y), r=size, class_=kind))
    parts += [
        *_labels(placed, timed=timed),
        tag("line", x1=place(LEFT), y1=place(floor), x2=place(WIDTH - RIGHT), y2=place(floor)),
        label(LEFT - 6, TOP + 14, number(high), "end"),
        label(LEFT - 6, floor, number(low), "end"),
        label(LEFT, floor + 14, "0", "start"),
        label(WIDTH - RIGHT, floor + 14, number(right), "end"),
        label(WIDTH / 2, _HEIGHT - 4, f"cosine over {unit}; blue: meets all", "middle"),
    ]
    return drawing("Candidates by cosine and cost", _HEIGHT, *parts)


def _labels(placed: Sequence[Point], *, timed: bool) -> Iterator[Markup]:
    """Yield the numbers of points; those of points that lie so near share one label."""
    groups: list[list[Point]] = []
    for each in sorted(placed, key=lambda row: (row[0], row[2].number)):
        near = (
            group
            for group in groups
            if any(each[0] - x < _APART[0] and abs(each[1] - y) < _APART[1] for x, y, _ in group)
        )
        found = next(near, None)
        if found is None:
            groups.append([each])
        else:
            found.append(each)
    for group in groups:
        rows = sorted((row for _, _, row in group), key=lambda row: row.number)
        x, y = max(x for x, _, _ in group), group[0][1]
        said, end = ", ".join(_named(row, timed=timed) for row in rows), x > _LATE
        left = min(x for x, _, _ in group)
        yield label(left - 8 if end else x + 8, y + 4, said, "end" if end else "start")


def _named(row: CandidateView, *, timed: bool) -> str:
    return f"{row.number} (tainted)" if _tainted(row, timed=timed) else str(row.number)


def _tainted(row: CandidateView, *, timed: bool) -> bool:
    """Tell whether what a candidate is drawn by cannot be relied on."""
    return timed and row.outcome is not None and bool(row.outcome.tainted)


def _rows(search: SearchView) -> Markup:
    several = bool(search.spec.space.profiles)
    heads = ["candidate", *(["profile"] if several else []), "state", "meets all", "front"]
    left = len(heads)
    heads += ["cosine", "P50 ms", "P99 ms", "memory MB", "engine MB"]
    rows = [_cells(search, row, several=several) for row in search.candidates]
    return join(table(heads, rows, left=left), facts([_why(row) for row in search.candidates]))


def _cells(search: SearchView, row: CandidateView, *, several: bool) -> list[str]:
    told = row.outcome or Outcome()
    state = state_words(search, row) or NONE
    met = met_words(told) or NONE
    named = [f"{row.number}: {precision_words(row.precision)}"]
    named += [profile_words(row)] if several else []
    shown = [number(each) for each in (told.latency_p50_ms, told.latency_p99_ms)]
    if told.tainted:
        shown = [each if each == NONE else f"{each} (tainted)" for each in shown]
    sizes = (told.memory_bytes, told.engine_bytes)
    shown += [number(None if each is None else each / 1e6) for each in sizes]
    return [*named, state, met, front_words(search, row), number(_near(told)), *shown]


def _why(row: CandidateView) -> list[str]:
    """Return why a candidate was tried, and its digest whole: neither has room in the table."""
    artifact = None if row.outcome is None else row.outcome.artifact
    return [str(row.number), row.why if artifact is None else f"{row.why}; {artifact}"]


def _section(name: str, shown: Markup) -> Markup:
    return join(tag("h2", name), shown)
