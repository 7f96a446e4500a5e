"""Candidates of a search in a few words, for tables and pages. Pure."""

from __future__ import annotations

from enginefarm.precision import Precision, PrecisionKind
from enginefarm.search_views import CandidateView, Outcome, SearchView
from enginefarm.state import ArtifactState


def precision_words(precision: Precision) -> str:
    """Return a precision in a few words: ``int8 minmax 3 kept``."""
    if precision.kind is PrecisionKind.AS_IS:
        return "as it came"
    words = [str(precision.kind)]
    words += [str(precision.tool)] if precision.tool is not None else []
    words += [str(precision.method)] if precision.method is not None else []
    words += [f"{len(precision.exclude)} kept"] if precision.exclude else []
    return " ".join(words)


def candidate_words(row: CandidateView) -> str:
    """Return a candidate in a few words: its precision, and its profile if that is another."""
    words = precision_words(row.precision)
    return words if row.profile is None else f"{words}, profile {row.profile}"


def profile_words(row: CandidateView) -> str:
    """Return the name of a candidate's profile."""
    return row.profile or "as asked"


def state_words(search: SearchView, row: CandidateView) -> str | None:
    """Return how a candidate stands: of those that meet all one goes out, when all are over."""
    told = row.outcome
    if told is None:
        return None if row.build_state is None else str(row.build_state)
    if told.untried:
        return "not tried"
    if told.failure is not None:
        return told.failure.code
    if told.artifact_state is ArtifactState.REVOKED:
        return "revoked"
    if told.met and row.number != search.chosen:
        return "not chosen" if search.state.terminal else "kept back"
    return None if told.artifact_state is None else str(told.artifact_state)


def met_words(told: Outcome) -> str | None:
    """Return whether a candidate meets all, and if not by its requirements, why not."""
    if told.artifact is None:
        return None
    if told.met or told.held_back is None:
        return "yes" if told.met else "no"
    return f"no: {told.held_back}"


def front_words(search: SearchView, row: CandidateView) -> str:
    """Return whether a candidate is chosen or on the front, and if its latency had no say."""
    mark = "chosen" if row.number == search.chosen else "yes" if row.on_front else ""
    tainted = mark and row.outcome is not None and row.outcome.tainted
    return f"{mark}, tainted" if tainted else mark
