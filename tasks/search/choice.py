"""Which candidates no other beats, which one is chosen, and what is said of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from enginefarm.gate import Gate
from enginefarm.precision import Precision, PrecisionKind
from enginefarm.search import Prefer, SearchSpec
from enginefarm.search_views import AccuracyOf, Outcome
from tasks.gates import describe
from tasks.search.outcome import requirements, set_aside

Outcomes = Mapping[int, Outcome]
_EXACT = 1.0


def near(outcome: Outcome) -> float | None:
    """Return how near a candidate is to the model; the model as it came is exact."""
    return _EXACT if outcome.accuracy_of is AccuracyOf.ORIGINAL else outcome.cosine


_COSTS: dict[Prefer, Callable[[Outcome], float | None]] = {
    Prefer.LATENCY: lambda row: row.latency_p99_ms,
    Prefer.SIZE: lambda row: row.engine_bytes,
    Prefer.MEMORY: lambda row: row.memory_bytes,
    Prefer.ACCURACY: lambda row: None if (found := near(row)) is None else -found,
}
_NAMES = {
    Prefer.LATENCY: "P99",
    Prefer.SIZE: "the engine's size",
    Prefer.MEMORY: "memory",
    Prefer.ACCURACY: "accuracy",
}


def front(outcomes: Outcomes) -> list[int]:
    """Return the candidates that no other is as good as in all and better than in something."""
    built = {number: row for number, row in outcomes.items() if row.artifact is not None}
    return [
        number
        for number, row in built.items()
        if not any(_beats(other, row) for at, other in built.items() if at != number)
    ]


def _beats(one: Outcome, other: Outcome) -> bool:
    """Tell whether one is nowhere worse and somewhere better, where both were measured."""
    better = False
    for cost in _COSTS.values():
        mine, theirs = cost(one), cost(other)
        if theirs is None:
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
    """Return what decides: what was asked for, else latency where all were run, else size."""
    if spec.prefer is not None:
        return spec.prefer
    met = able(outcomes)
    run = bool(met) and all(row.latency_p99_ms is not None for row in met.values())
    return Prefer.LATENCY if run else Prefer.SIZE


def choose(spec: SearchSpec, outcomes: Outcomes) -> int | None:
    """Return the number of the best candidate that meets the requirements, if any does."""
    met = able(outcomes)
    cost = _COSTS[preferred(spec, outcomes)]

    def order(number: int) -> tuple[float, float, int]:
        row = met[number]
        found = cost(row)
        return (float("inf") if found is None else found), -(near(row) or -1.0), number

    return min(met, key=order, default=None)


def nearest(outcomes: Outcomes) -> int | None:
    """Return the candidate that misses the fewest requirements; of these the most accurate."""
    built = {n: row for n, row in outcomes.items() if row.artifact is not None}

    def order(number: int) -> tuple[int, float, int]:
        row = built[number]
        return sum(not each.met for each in row.verdicts), -(near(row) or -1.0), number

    return min(built, key=order, default=None)


def verdict(
    spec: SearchSpec, precisions: Mapping[int, Precision], outcomes: Outcomes, why: str
) -> str:
    """Return what a search that is over has found, in a few sentences."""
    chosen = choose(spec, outcomes)
    counts = f"{len(outcomes)} candidates were tried; it ended since {why}."
    if not any(row.artifact for row in outcomes.values()):
        return f"No candidate became an engine. {counts}"
    if chosen is None:
        return f"{_unmet(spec, precisions, outcomes)} {counts}"
    by = _NAMES[preferred(spec, outcomes)]
    said = f"Candidate {chosen} ({told(precisions[chosen])}) is the best by {by} of those that meet"
    judged = [row for row in requirements(spec) if describe(row) not in outcomes[chosen].set_aside]
    said += f" {_all(judged)}."
    if precisions[chosen].kind is PrecisionKind.AS_IS:
        said += f" {_no_better(precisions, outcomes)}"
    return f"{said} {counts}"


def _no_better(precisions: Mapping[int, Precision], outcomes: Outcomes) -> str:
    """Say why the model stays as it came."""
    others = {n: row for n, row in outcomes.items() if precisions[n].kind != PrecisionKind.AS_IS}
    met = others.keys() & able(outcomes).keys()
    if met:
        return f"None of the {len(met)} others that meet it is better by that."
    best = nearest(others)
    if best is None:
        return "No other became an engine."
    return f"No other reaches it; the nearest was candidate {best}: {_missed(others[best])}."


def _unmet(spec: SearchSpec, precisions: Mapping[int, Precision], outcomes: Outcomes) -> str:
    best = nearest(outcomes)
    asked = [row for row in requirements(spec) if describe(row) not in _aside(outcomes)]
    said = f"No candidate in the space reaches {_all(asked)};"
    if best is None:
        return f"{said} none became an engine."
    which = f"candidate {best} ({told(precisions[best])})"
    return f"{said} the nearest was {which}: {_missed(outcomes[best])}."


def _aside(outcomes: Outcomes) -> set[str]:
    return {name for row in outcomes.values() for name in row.set_aside}


def _missed(outcome: Outcome) -> str:
    missed = [row for row in outcome.verdicts if not row.met]
    if not missed and outcome.met and outcome.set_aside:
        return f"it was not held against {' and '.join(outcome.set_aside)}"
    if not missed:
        return f"it meets them, but its artifact is {outcome.artifact_state}"
    return "; ".join(
        f"{row.gate} is {'not known' if row.value is None else f'{row.value:.6g}'}"
        for row in missed
    )


def told(precision: Precision) -> str:
    """Return a precision in a few words."""
    if precision.kind is PrecisionKind.AS_IS:
        return "the model as it came"
    words = str(precision.kind)
    if precision.tool is not None:
        words += f" by {precision.tool}"
    if precision.method is not None:
        words += f", {precision.method}" if precision.tool else f" by {precision.method}"
    return words + (f", {len(precision.exclude)} kept" if precision.exclude else "")


def _all(gates: Sequence[Gate]) -> str:
    return " and ".join(map(describe, gates)) or "what is required"


def notes(spec: SearchSpec, kinds: Sequence[PrecisionKind], *, reason: str | None) -> list[str]:
    """Return what to know of a search from its beginning; ``reason``: why nothing is measured."""
    said = []
    if spec.calibration is None and not spec.space.kinds:
        said.append("int8 is not tried: there is no calibration data")
    if reason is not None:
        said.append(f"engines are {reason}; accuracy is that of the model file, and size decides")
        aside = set_aside(spec, measured=False)
        said += [f"{describe(row)} cannot be judged here and is set aside" for row in aside]
    if requirements(spec) != list(spec.require):
        said.append("no requirement is on accuracy: cosine >= 0.99 is taken for one")
    said.append(f"tried are the model as it came{''.join(f', {kind}' for kind in kinds)}")
    return said
