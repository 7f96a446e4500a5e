"""Which candidates no other beats, and which one is chosen. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from enginefarm.search import Prefer, SearchSpec
from enginefarm.search_views import AccuracyOf, Outcome

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


def choose(spec: SearchSpec, outcomes: Outcomes) -> int | None:
    """Return the number of the best candidate that meets the requirements, if any does.

    Where latency decides, none is chosen whose latency is tainted.
    """
    by = preferred(spec, outcomes)
    met = {n: row for n, row in able(outcomes).items() if not _undecided(by, row)}
    return min(met, key=lambda number: (*_order(by, met[number]), number), default=None)


def _order(by: Prefer, row: Outcome) -> tuple[float, float]:
    """Return what decides, and what does where that is the same; the smaller is the better."""
    found = _COSTS[by](row)
    return (float("inf") if found is None else found), -(near(row) or -1.0)


def _undecided(by: Prefer, row: Outcome) -> bool:
    return by is Prefer.LATENCY and bool(row.tainted)


def nearest(outcomes: Outcomes) -> int | None:
    """Return the candidate that misses the fewest requirements; of these the most accurate."""
    built = {n: row for n, row in outcomes.items() if row.artifact is not None}

    def order(number: int) -> tuple[int, float, int]:
        row = built[number]
        return sum(not each.met for each in row.verdicts), -(near(row) or -1.0), number

    return min(built, key=order, default=None)
