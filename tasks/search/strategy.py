"""Which candidates a search tries next. Pure: what has been tried in, what to try or the end out.

First what needs no guessing: the model as it came, int8 by each method, and the half precisions.
If no int8 is near enough, the best of them is tried again with its costliest layers left as they
came: a few numbers of layers far apart, then between the most that is too few and the fewest that
is enough. The fewer stay, the more is int8, so the fewest that are enough are looked for. Last come
other profiles, for the best of these (:mod:`tasks.search.profiles`).

What no live node has the tool for is held back, and keeps nothing else from being tried. Whatever
comes of candidates, each step tries something, waits for something, or ends the search; and nothing
is tried twice. So a search ends within its budget.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest

from pydantic import TypeAdapter, ValidationError

from enginefarm.counted import counted
from enginefarm.gate import Metric
from enginefarm.precision import (
    MAKERS,
    METHODS,
    TOOLS,
    CalibrationMethod,
    Pattern,
    Precision,
    PrecisionKind,
    PrecisionTool,
)
from enginefarm.search import SearchSpec
from enginefarm.search_views import Outcome
from tasks.search.profiles import room_for_profiles, with_profiles
from tasks.search.tried import Proposal, Step, Tried

Away = Callable[[Precision], bool]
"""Tells whether no live node has the tool for a precision."""
_MOST_EXCLUDED = 256
_PATTERN: TypeAdapter[str] = TypeAdapter(Pattern)
_BY_EVERY_TOOL = frozenset({PrecisionKind.INT8, PrecisionKind.FP8, PrecisionKind.INT4})
"""Kinds for which more than one tool is tried, if it is there."""


def nothing_is_away(_: Precision) -> bool:
    """Tell that every tool is there."""
    return False


def next_step(
    spec: SearchSpec,
    kinds: Sequence[PrecisionKind],
    tried: Sequence[Tried],
    *,
    late: bool = False,
    away: Away = nothing_is_away,
) -> Step:
    """Return what to try next. ``kinds``: what the target takes; ``late``: the time is over."""
    under_way = sum(row.outcome is None for row in tried)
    left = spec.budget.candidates - len(tried)
    wanted = _untried(_wanted(spec, kinds, tried, away), tried)
    held = [row for row in wanted if away(row.precision)]
    if late or left <= 0:
        said = (
            "its time was over" if late else f"its budget of {spec.budget.candidates} was used up"
        )
        return Step(over=under_way == 0, why=said, held=held)
    here = [row for row in wanted if not away(row.precision)]
    found = here[: max(0, min(left, spec.budget.at_once - under_way))]
    quiet = not found and under_way == 0
    over = quiet and not held
    said = "nothing was left to try" if over else ""
    return Step(found, over=over, why=said, held=held, waits=quiet and bool(held))


def _untried(wanted: Iterable[Proposal], tried: Sequence[Tried]) -> list[Proposal]:
    """Return what has not been tried yet, each once."""
    found: list[Proposal] = []
    known = [(row.precision, row.profile) for row in tried]
    for row in wanted:
        if (row.precision, row.profile) not in known:
            known.append((row.precision, row.profile))
            found.append(row)
    return found


def _wanted(
    spec: SearchSpec, kinds: Sequence[PrecisionKind], tried: Sequence[Tried], away: Away
) -> Iterator[Proposal]:
    """Yield all that is worth trying by what is known now: precisions first, and then profiles.

    What of the budget is kept for profiles goes to precisions if no profile can use it.
    """
    plain = [row for row in tried if row.profile is None]
    found = _untried(_precisions(spec, kinds, plain, away), plain)
    here = [row for row in found if not away(row.precision)]
    room = max(0, spec.budget.candidates - room_for_profiles(spec) - len(plain))
    yield from here[:room]
    yield from (row for row in found if away(row.precision))
    if here[:room] or any(row.outcome is None for row in plain):
        return
    more = _untried(with_profiles(spec, plain), tried)
    yield from more or here[room:]


def _precisions(
    spec: SearchSpec, kinds: Sequence[PrecisionKind], tried: Sequence[Tried], away: Away
) -> Iterator[Proposal]:
    """Yield the precisions that are worth trying by what is known now, the most telling first."""
    first = list(openers(spec, kinds))
    yield from first
    if any(_is_open(row, tried, away) for row in first):
        return
    bases = [
        row
        for row in tried
        if row.precision.kind is PrecisionKind.INT8
        and row.precision.exclude == spec.space.exclude
        and row.outcome is not None
        and row.outcome.failure is None
    ]
    bases.sort(key=lambda row: _nearness(row.outcome), reverse=True)
    if bases and not _accurate(bases[0].outcome):
        yield from _with_layers_kept(bases[0], tried)


def _is_open(row: Proposal, tried: Sequence[Tried], away: Away) -> bool:
    """Tell whether what comes of a proposal is to be waited for."""
    at = index_of(row.precision, tried)
    return not away(row.precision) if at is None else tried[at].outcome is None


def openers(spec: SearchSpec, kinds: Sequence[PrecisionKind]) -> Iterator[Proposal]:
    """Yield what is tried whatever comes of it."""
    yield Proposal(Precision(), "the model as it came, which all others are held against")
    ways = list(_ways(spec)) if PrecisionKind.INT8 in kinds else []
    first = ways if spec.space.methods else ways[: 2 * len(tools_of(spec, PrecisionKind.INT8))]
    yield from (_int8(spec, tool, method) for tool, method in first)
    for kind in kinds:
        if kind is not PrecisionKind.INT8:
            for tool in tools_of(spec, kind):
                yield _whole(spec, kind, tool)
    yield from (_int8(spec, tool, method) for tool, method in ways[len(first) :])


def tools_of(spec: SearchSpec, kind: PrecisionKind) -> list[PrecisionTool]:
    """Return the tools that make a kind and may be tried; halves by the usual one alone."""
    makers = MAKERS[kind] if kind in _BY_EVERY_TOOL else MAKERS[kind][:1]
    named = spec.space.tools
    return [tool for tool in makers if tool in named or tool is PrecisionTool.ENGINEFARM]


def _ways(spec: SearchSpec) -> Iterator[tuple[PrecisionTool, CalibrationMethod]]:
    """Yield the tools and methods of int8, the first of each tool before the second of any."""
    rows = [
        [(tool, each) for each in METHODS[PrecisionKind.INT8, tool] if _may(spec, each)]
        for tool in tools_of(spec, PrecisionKind.INT8)
    ]
    for row in zip_longest(*rows):
        yield from (each for each in row if each is not None)


def _may(spec: SearchSpec, method: CalibrationMethod) -> bool:
    return not spec.space.methods or method in spec.space.methods


def _whole(spec: SearchSpec, kind: PrecisionKind, tool: PrecisionTool) -> Proposal:
    told = _shared(spec) | {"kind": str(kind), "calibration": spec.calibration}
    precision = Precision.model_validate(told | _named(kind, tool))
    return Proposal(precision, f"all in {kind}{_by(precision)}")


def _int8(spec: SearchSpec, tool: PrecisionTool, method: CalibrationMethod) -> Proposal:
    told = _shared(spec) | {
        "kind": "int8",
        "calibration": spec.calibration,
        "method": str(method),
        "sensitivity": spec.space.layers,
    }
    precision = Precision.model_validate(told | _named(PrecisionKind.INT8, tool))
    return Proposal(precision, f"all in int8{_by(precision)}, ranges by {method}")


def _named(kind: PrecisionKind, tool: PrecisionTool) -> dict[str, str]:
    """Name a tool where it is not the one that is taken anyway."""
    return {} if tool is TOOLS[kind] else {"tool": str(tool)}


def _by(precision: Precision) -> str:
    return f" by {precision.tool}" if precision.tool else ""


def _shared(spec: SearchSpec) -> dict[str, object]:
    space = spec.space
    return {"op_types": space.op_types, "exclude": space.exclude, "samples": space.samples}


def index_of(precision: Precision, tried: Sequence[Tried]) -> int | None:
    """Return the place of a precision among what has been tried."""
    return next((at for at, row in enumerate(tried) if row.precision == precision), None)


def _accurate(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.accurate


def _nearness(outcome: Outcome | None) -> tuple[bool, float]:
    if outcome is None:
        return False, -2.0
    return outcome.accurate, -2.0 if outcome.cosine is None else outcome.cosine


def _with_layers_kept(base: Tried, tried: Sequence[Tried]) -> Iterator[Proposal]:
    """Yield the best int8 with so many of its costliest layers left as they came."""
    assert base.outcome is not None  # noqa: S101 - whoever calls has looked
    room = _MOST_EXCLUDED - len(base.precision.exclude)
    # Names are the model's own: one that no build could exclude stays in int8.
    names = [name for name in map(glob.escape, base.outcome.layers) if _is_pattern(name)]
    # Past those that were tried come those by estimate; where all stay nothing is int8.
    names = list(dict.fromkeys(names))[: min(room, len(base.outcome.layers) - 1)]
    known = {
        kept: found.outcome
        for kept in range(1, len(names) + 1)
        for found in tried
        if found.precision == _keeping(base.precision, names[:kept])
    }
    enough = [kept for kept, outcome in known.items() if _accurate(outcome)]
    few = [kept for kept, outcome in known.items() if outcome is not None and not outcome.accurate]
    most, least = min(enough, default=None), 0
    least = max((kept for kept in few if most is None or kept < most), default=0)
    for kept in _rungs(base.outcome, least, most, len(names)):
        if kept not in known:
            told = f"the {counted(kept, 'costliest layer')} stay as they came"
            yield Proposal(_keeping(base.precision, names[:kept]), f"int8, {told}")


def _is_pattern(name: str) -> bool:
    try:
        _PATTERN.validate_python(name)
    except ValidationError:
        return False
    return True


def _keeping(base: Precision, names: Sequence[str]) -> Precision:
    more = {"exclude": [*base.exclude, *names], "sensitivity": None}
    return Precision.model_validate(base.model_dump(mode="json") | more)


def _rungs(base: Outcome, least: int, most: int | None, names: int) -> list[int]:
    """Return how many layers to keep next: ``least`` were too few, ``most`` were enough."""
    if most is not None:
        gap = most - least
        # Between them, from both sides, since two can be tried at once.
        return (
            sorted({least + gap // 2, least + max(1, gap // 4)} - {least, most}) if gap > 1 else []
        )
    guess = _guess(base)
    ladder = {max(1, guess // 2), *(guess << power for power in range(9)), names}
    return [kept for kept in sorted(ladder) if least < kept <= names]


def _guess(base: Outcome) -> int:
    """Return how many layers have to stay by what the trials on a few samples say."""
    missed = [row.missed_by for row in base.verdicts if row.gate.startswith(f"{Metric.COSINE} ")]
    aim = max((far for far in missed if far is not None), default=None)
    if base.cosine is None or aim is None:
        return 1
    loss = 1 - (base.cosine + aim)
    whole = next((row.cosine for row in base.steps if row.kept == 0), 1.0)
    # The trial's samples are others than those that judge: only its proportions are believed.
    share = loss / max(1 - base.cosine, 1e-12)
    for row in base.steps:
        if row.kept and 1 - row.cosine <= share * (1 - whole):
            return row.kept
    return 1
