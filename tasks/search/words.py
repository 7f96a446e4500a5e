"""What is said of a search: from its beginning, and when it is over. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from enginefarm.counted import counted
from enginefarm.gate import Gate
from enginefarm.precision import Precision, PrecisionKind
from enginefarm.report import GateVerdict
from enginefarm.rounding import rounded
from enginefarm.search import Prefer, SearchSpec, measured_shapes
from enginefarm.search_views import Outcome
from enginefarm.shapes_text import shapes_text
from tasks.gates import describe
from tasks.search.choice import Outcomes, able, choose, nearest, preferred
from tasks.search.outcome import requirements, set_aside
from tasks.search.tried import Tried

_ONE_FOR_ALL = frozenset({"onnxruntime"})
"""Backends that build the same engine whatever the profile is."""
_NAMES = {
    Prefer.LATENCY: "P99",
    Prefer.SIZE: "the engine's size",
    Prefer.MEMORY: "memory",
    Prefer.ACCURACY: "accuracy",
}


def verdict(spec: SearchSpec, tried: Mapping[int, Tried], outcomes: Outcomes, why: str) -> str:
    """Return what a search that is over has found, in a few sentences."""
    chosen = choose(spec, outcomes, tried)
    counts = f"{_counts(tried, outcomes, why)}{_tainted(outcomes)}"
    if not any(row.artifact for row in outcomes.values()):
        return f"No candidate became an engine. {counts}"
    if chosen is None and able(outcomes):
        met = _all(requirements(spec))
        return f"None of those that meet {met} is chosen: {_undecided(spec, outcomes)}. {counts}"
    if chosen is None:
        return f"{_unmet(spec, tried, outcomes)} {counts}"
    by = _NAMES[preferred(spec, outcomes)]
    said = f"Candidate {chosen} ({_named(tried[chosen])}) is the best by {by} of those that meet"
    judged = [row for row in requirements(spec) if describe(row) not in outcomes[chosen].set_aside]
    said += f" {_all(judged)}."
    if tried[chosen].precision.kind is PrecisionKind.AS_IS:
        said += f" {_no_better(tried, outcomes)}"
    return f"{said} {counts}"


def _undecided(spec: SearchSpec, outcomes: Outcomes) -> str:
    """Say why nothing is chosen of what meets the requirements."""
    by_latency = preferred(spec, outcomes) is Prefer.LATENCY
    if by_latency and all(row.tainted for row in able(outcomes).values()):
        return "latency decides"
    return "under the build's own profile the same engine may not go out"


def _counts(tried: Mapping[int, Tried], outcomes: Outcomes, why: str) -> str:
    untried = [number for number, row in outcomes.items() if row.untried]
    others = len(outcomes) - len(untried)
    said = f"{counted(others, 'candidate was', 'candidates were')} tried; it ended since {why}."
    if untried:
        tools = sorted({str(tried[number].precision.maker) for number in untried})
        more = counted(len(untried), "more was", "more were")
        said += f" {more} not: no live node has {' or '.join(tools)}."
    return said


def _tainted(outcomes: Outcomes) -> str:
    """Say which latencies decided nothing, and why not."""
    tainted = {number: row.tainted[0] for number, row in outcomes.items() if row.tainted}
    if not tainted:
        return ""
    run = sum(row.latency_p99_ms is not None for row in outcomes.values())
    which = (
        "Every latency"
        if len(tainted) == run
        else f"The latency of {counted(len(tainted), 'candidate')} ({', '.join(map(str, tainted))})"
    )
    return f" {which} is tainted and decided nothing: {next(iter(tainted.values()))}."


def _no_better(tried: Mapping[int, Tried], outcomes: Outcomes) -> str:
    """Say why the model stays as it came."""
    others = {
        n: row for n, row in outcomes.items() if tried[n].precision.kind != PrecisionKind.AS_IS
    }
    met = others.keys() & able(outcomes).keys()
    if met:
        return f"None of the {len(met)} others that meet it is better by that."
    best = nearest(others)
    if best is None:
        return "No other became an engine."
    if all(row.met for row in others[best].verdicts):
        return f"No other may go out: candidate {best} meets them, and {_missed(others[best])}."
    return f"No other reaches it; the nearest was candidate {best}: {_missed(others[best])}."


def _unmet(spec: SearchSpec, tried: Mapping[int, Tried], outcomes: Outcomes) -> str:
    best = nearest(outcomes)
    asked = [row for row in requirements(spec) if describe(row) not in _aside(outcomes)]
    said = f"No candidate in the space reaches {_all(asked)};"
    if best is None:
        return f"{said} none became an engine."
    which = f"candidate {best} ({_named(tried[best])})"
    if all(row.met for row in outcomes[best].verdicts) and not outcomes[best].met:
        said = f"No candidate may go out: {which} meets {_all(asked)}, and"
        return f"{said} {_missed(outcomes[best])}."
    return f"{said} the nearest was {which}: {_missed(outcomes[best])}."


def _aside(outcomes: Outcomes) -> set[str]:
    return {name for row in outcomes.values() for name in row.set_aside}


def _missed(outcome: Outcome) -> str:
    missed = [row for row in outcome.verdicts if not row.met]
    if not missed and outcome.met and outcome.set_aside:
        return f"it was not held against {' and '.join(outcome.set_aside)}"
    if not missed:
        return f"is {outcome.held_back or outcome.artifact_state}"
    return "; ".join(map(_seen, missed))


def _seen(row: GateVerdict) -> str:
    """Return what a gate has seen: ``its engine_bytes is 3,163,970, at most 1,000``."""
    metric, _, bound = row.gate.partition(" ")
    asked = bound.replace("<=", "at most").replace(">=", "at least")
    if row.value is None:
        said = f"not known ({row.reason})" if row.reason else "not known"
        return f"its {metric} is {said}, {asked}"
    doubt = f" ({row.reason})" if row.tainted else ""
    return f"its {metric} is {_number(row)}{doubt}, {asked}"


def _number(row: GateVerdict) -> str:
    """Return a value, with as many digits as set it apart from its bound."""
    value = row.value or 0.0
    if value == round(value):
        return f"{value:,.0f}"
    return rounded(value, bound=row.gate)


def _named(row: Tried) -> str:
    words = told(row.precision)
    return words if row.profile is None else f"{words}, profile {row.profile}"


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
    return [*said, *_of_profiles(spec)]


def _of_profiles(spec: SearchSpec) -> list[str]:
    if not spec.space.profiles:
        return []
    places = " and ".join(map(shapes_text, measured_shapes(spec)))
    names = ", ".join(sorted(spec.space.profiles))
    said = [f"the best are also tried under the profiles {names}; all are measured at {places}"]
    if spec.build.targets[0].backend in _ONE_FOR_ALL:
        said.append(
            f"{spec.build.targets[0].backend} builds one engine for all profiles: what differs"
            " between them is chance"
        )
    return said
