"""Searches as a person reads them: candidates, the front, and what was found."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from enginefarm.cli.figures import size
from enginefarm.cli.grid import NONE, Column, Grid, short
from enginefarm.cli.output import clean
from enginefarm.cli.tables import when
from enginefarm.rounding import rounded
from enginefarm.search_views import AccuracyOf, CandidateView, Outcome, SearchPage, SearchView
from enginefarm.search_words import (
    front_words,
    met_words,
    precision_words,
    profile_words,
    state_words,
)
from enginefarm.state import ArtifactState

_HEADS = (Column("#", head=True), Column("precision", head=True))
_PROFILE, _STATE = Column("profile"), Column("state")
_NUMBERS = tuple(Column(name, right=True) for name in ("cosine", "P99", "memory", "engine"))
_TAIL = (Column("meets all"), Column("front"), Column("digest"))


def candidates_grid(search: SearchView) -> Grid:
    """Return all candidates of a search, in the order in which they were tried."""
    title = Text(f"{clean(search.model_name)}  {search.target}  {search.state}")
    profiles = bool(search.spec.space.profiles)
    heads = (*_HEADS, *([_PROFILE] if profiles else []), _STATE)
    grid = Grid((*heads, *_NUMBERS, *_TAIL), title=title, framed=True)
    for row in search.candidates:
        grid.add(
            str(row.number),
            precision_words(row.precision),
            *([profile_words(row)] if profiles else []),
            state_words(search, row) or NONE,
            *_cells(row),
            front_words(search, row),
            _digest(row.outcome),
        )
    return grid


def searches_grid(page: SearchPage) -> Grid:
    """Return a page of searches."""
    names = ("search", "state", "model", "target", "tried", "chosen", "begun")
    grid = Grid(tuple(Column(name, head=name == "search") for name in names), framed=True)
    for row in page.items:
        tried = f"{row.tried} of {row.budget}"
        chosen = NONE if row.artifact is None else short(row.artifact)
        named = (row.id, str(row.state), clean(row.model_name), str(row.target))
        grid.add(*named, tried, chosen, when(row.created_at))
    return grid


def _cells(row: CandidateView) -> tuple[str, ...]:
    told = row.outcome
    if told is None or told.artifact is None:
        return (NONE,) * 5
    exact = told.accuracy_of is AccuracyOf.ORIGINAL
    cosine = "exact" if exact else NONE if told.cosine is None else rounded(told.cosine)
    cosine += " (file)" if told.accuracy_of is AccuracyOf.MODEL_FILE else ""
    p99 = NONE if told.latency_p99_ms is None else f"{told.latency_p99_ms:.2f} ms"
    p99 += " tainted" if told.tainted else ""
    sizes = (NONE if n is None else size(n) for n in (told.memory_bytes, told.engine_bytes))
    return (cosine, p99, *sizes, met_words(told) or NONE)


def _digest(told: Outcome | None) -> str:
    return NONE if told is None or told.artifact is None else short(told.artifact)


def search_lines(search: SearchView) -> Iterator[str]:
    """Yield what is to be said of a search below its table."""
    yield from (f"note: {each}" for each in search.notes)
    for row in search.candidates:
        failure = row.outcome.failure if row.outcome is not None else None
        if row.outcome is not None and row.outcome.tainted:
            reasons = "; ".join(row.outcome.tainted)
            yield f"candidate {row.number}: its latency is tainted: {reasons}"
        if row.outcome is not None and row.outcome.untried and failure is not None:
            yield f"candidate {row.number}: {failure.message}"
        elif failure is not None:
            yield f"candidate {row.number} failed [{failure.code}]: {failure.message}"
    if search.verdict:
        yield search.verdict
    if search.artifact is not None:
        yield f"chosen: {search.artifact}"
        verb = "report" if _is_revoked(search) else "pull"
        yield f"{search.target}: enginefarm {verb} {search.artifact}"


def _is_revoked(search: SearchView) -> bool:
    told = next((row.outcome for row in search.candidates if row.number == search.chosen), None)
    return told is not None and told.artifact_state is ArtifactState.REVOKED


def progress_line(search: SearchView) -> str:
    """Return how far a search is, in one line."""
    over = [row for row in search.candidates if row.outcome and not row.outcome.untried]
    near = [row.outcome.cosine for row in over if row.outcome and row.outcome.cosine is not None]
    met = sum(row.outcome.met for row in over if row.outcome is not None)
    said = f"{len(over)} of {search.tried} candidates are over, {met} meet all"
    return f"{said}, {search.budget - search.tried} left to try" + (
        f"; the best cosine is {rounded(max(near))}" if near else ""
    )
