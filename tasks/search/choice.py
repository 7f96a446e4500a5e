"""Which candidates no other beats, and which one is chosen. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from enginefarm.report import GateVerdict
from enginefarm.search import Prefer, SearchSpec
from enginefarm.search_views import AccuracyOf, Outcome
from enginefarm.verdict_report import MARGIN
from tasks.search.tried import Tried

Outcomes = Mapping[int, Outcome]
_EXACT = 1.0


def near(outcome: Outcome) -> float | None:
    """Return how near a candidate is to the model; the model as it came is exact."""
    return _EXACT if outcome.accuracy_of is AccuracyOf.ORIGINAL else outcome.cosine


_COSTS: dict[Prefer, Callable[[Outcome], float | None]] = {
    Prefer.LATENCY: lambda row: None if row.tainted else row.latency_p99_ms,
    Prefer.SIZE: lambda row: row.engine_bytes,
    Prefer.MEMORY: lambda row: row.memory_bytes,
    Prefer.ACCURACY: lambda row: None if (found := near(row)) is None else -found,
}


def front(outcomes: Outcomes) -> list[int]:
    """Return the candidates that no other is as good as in all and better than in something.

    A latency that is tainted counts as one that was not measured, and any other as better than it.
    """
    built = {number: row for number, row in outcomes.items() if row.artifact is not None}
    return [
        number
        for number, row in built.items()
        if not any(_beats(other, row) for at, other in built.items() if at != number)
    ]


def _beats(one: Outcome, other: Outcome) -> bool:
    """Tell whether one is nowhere worse and somewhere better, where both were measured."""
    better = False
    for by, cost in _COSTS.items():
        mine, theirs = cost(one), cost(other)
        if theirs is None:
            better = better or (mine is not None and _undecided(by, other))
            continue
        if mine is None or mine > theirs:
            return False
        better = better or mine < theirs
    return better


def able(outcomes: Outcomes) -> Outcomes:
    """Return the candidates that meet the requirements.

    Once a candidate was held against all of them, one that was not is no match for it: a node that
    went away must not let an engine through that nobody has run.
    """
    built = {number: row for number, row in outcomes.items() if row.artifact is not None}
    fewest = min((len(row.set_aside) for row in built.values()), default=0)
    return {n: row for n, row in built.items() if row.met and len(row.set_aside) == fewest}


def preferred(spec: SearchSpec, outcomes: Outcomes) -> Prefer:
    """Return what decides: what was asked for, else latency where all were run, else size.

    Where every latency is tainted, size decides.
    """
    if spec.prefer is not None:
        return spec.prefer
    met = able(outcomes).values()
    run = bool(met) and all(row.latency_p99_ms is not None for row in met)
    return Prefer.LATENCY if run and not all(row.tainted for row in met) else Prefer.SIZE


def contenders(spec: SearchSpec, outcomes: Outcomes) -> list[int]:
    """Return the candidates that have become engines, the best first: those that meet all lead."""
    by = preferred(spec, outcomes)
    built = {n: row for n, row in outcomes.items() if row.artifact is not None}
    return sorted(built, key=lambda n: (not built[n].met, *_order(by, built[n]), n))


def choose(spec: SearchSpec, outcomes: Outcomes, tried: Mapping[int, Tried]) -> int | None:
    """Return the number of the best candidate that meets the requirements, if any does.

    Where latency decides, none is chosen whose latency is tainted. What another profile gains over
    the build's own counts only if it is a gain: :func:`_gains_nothing`.
    """
    by = preferred(spec, outcomes)
    met = {n: row for n, row in able(outcomes).items() if not _undecided(by, row)}
    plain = {
        row.precision.model_dump_json(): outcomes[n]
        for n, row in tried.items()
        if row.profile is None and n in outcomes
    }
    for number in [n for n in met if tried[n].profile is not None]:
        own = plain.get(tried[number].precision.model_dump_json())
        if own is not None and _gains_nothing(by, met[number], own):
            del met[number]
    return min(met, key=lambda number: (*_order(by, met[number]), number), default=None)


def _gains_nothing(by: Prefer, other: Outcome, own: Outcome) -> bool:
    """Tell whether a candidate under another profile is no better than under the build's own.

    The same bytes are one engine, however often it was measured: what came of it under the build's
    own profile holds, unless that was tainted. Of two engines the other has to be faster by what
    matters to anybody.
    """
    if other.engine is not None and other.engine == own.engine:
        return not own.tainted
    mine, theirs = _COSTS[by](other), _COSTS[by](own)
    if by is not Prefer.LATENCY or not own.met or mine is None or theirs is None:
        return False
    return mine > theirs * (1 - MARGIN)


def _order(by: Prefer, row: Outcome) -> tuple[float, float]:
    """Return what decides, and what does where that is the same; the smaller is the better."""
    found = _COSTS[by](row)
    return (float("inf") if found is None else found), -(near(row) or -1.0)


def _undecided(by: Prefer, row: Outcome) -> bool:
    return by is Prefer.LATENCY and bool(row.tainted)


def nearest(outcomes: Outcomes) -> int | None:
    """Return the candidate that misses the fewest requirements; of these by how little it does.

    Of two that miss by the same the more accurate is the nearer.
    """
    built = {n: row for n, row in outcomes.items() if row.artifact is not None}

    def order(number: int) -> tuple[int, float, float, int]:
        row = built[number]
        missed = [each for each in row.verdicts if not each.met]
        return len(missed), sum(map(_far, missed)), -(near(row) or -1.0), number

    return min(built, key=order, default=None)


def _far(missed: GateVerdict) -> float:
    """Return how far a value is from its bound, for its size: metrics have different units."""
    if missed.value is None:
        return float("inf")
    far = missed.missed_by or 0.0
    # One of these two is the bound or beyond it, so that more is farther whichever it is.
    return far / max(abs(missed.value - far), abs(missed.value + far), 1e-12)
