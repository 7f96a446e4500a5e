"""Whether a node measured what it was asked to, and whether its numbers can be. Pure.

A node that leaves out the profile on which an engine is slow, or the output that it has wrong, is
not believed in the rest; and no number of a node may be such that nothing can be reckoned from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from pydantic import TypeAdapter

from enginefarm.errors import JobFailed
from enginefarm.profile import measured_at
from enginefarm.spec import Profile
from enginefarm.state import Blame, Stage

LONGEST_MS = 1e9
"""Longer than any job may run; the ratio of two times is no larger, and no smaller than 1 / it."""
LARGEST = 1e60
"""Of any number: beyond what a float32 or a relative error can be, and its square is finite."""
LARGEST_COUNT = 1 << 63
LONGEST_TEXT = 20_000
LONGEST_NAME = 1024
MOST_VERSIONS = 64
LONGEST_VERSION = 200
LARGEST_DIM = (1 << 31) - 1
MOST_DIMS = 64
DEEPEST = 50

_PROFILES: TypeAdapter[list[Profile]] = TypeAdapter(list[Profile])


def check_as_asked(
    stage: Stage,
    recipe: Mapping[str, Any],
    facts: Mapping[str, Any],
    interface: Mapping[str, Any],
    built: Collection[str] | None = None,
) -> None:
    """Refuse facts that nothing can be reckoned from, or that are not of what a recipe asks for.

    ``facts`` have been read once: their fields are of their types. ``interface`` is that of the
    original model, ``built`` names the inputs of the model that the engine was built from; None
    of two engines, whose profiles say which inputs they have.

    Raises:
        JobFailed: the node's fault (code ``result_invalid``).
    """
    try:
        _require_bounded(facts)
        _require_versions(facts.get("versions") or {})
        if stage is Stage.BENCHMARK:
            _require_measured(recipe, facts, interface, built)
    except (KeyError, TypeError, ValueError) as error:
        raise JobFailed(
            f"What the node says of its {stage} cannot be.",
            blame=Blame.NODE,
            code="result_invalid",
            why=f"{str(error)[:300]}.",
            fix="Bring the node to the farm's version.",
        ) from error


def _require_bounded(facts: Mapping[str, Any]) -> None:
    for place, value in _leaves(facts, ""):
        if isinstance(value, str):
            _require(len(value) <= LONGEST_TEXT, f"{place} has {len(value)} characters")
        elif isinstance(value, int):
            _require(abs(value) < LARGEST_COUNT, f"{place} is too large a number")
        elif isinstance(value, float):
            _require(abs(value) <= LARGEST, f"{place} is {value:g}")


def _leaves(value: object, place: str, deep: int = 0) -> Iterator[tuple[str, object]]:
    """Yield what a value is made of, with the place of each."""
    _require(deep <= DEEPEST, f"{place[:80]} is nested more than {DEEPEST} deep")
    if isinstance(value, Mapping):
        for name, each in value.items():
            _require(len(name) <= LONGEST_NAME, f"a name in {place} has {len(name)} characters")
            yield from _leaves(each, f"{place}.{name}" if place else name, deep + 1)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each, place, deep + 1)
    else:
        yield place, value


def _require_versions(versions: Mapping[str, str]) -> None:
    _require(len(versions) <= MOST_VERSIONS, f"{len(versions)} versions are named")
    longest = max((len(each) for row in versions.items() for each in row), default=0)
    _require(longest <= LONGEST_VERSION, f"a version has {longest} characters")


def _require_measured(
    recipe: Mapping[str, Any],
    facts: Mapping[str, Any],
    interface: Mapping[str, Any],
    built: Collection[str] | None,
) -> None:
    options = recipe.get("options") or {}
    profiles = _PROFILES.validate_python(recipe.get("profiles") or [])
    places = measured_at(profiles, options.get("shapes") or []) or [{}]
    latency = facts.get("latency") or []
    alone = [row for row in latency if not row.get("swept")]
    swept, most = len(latency) - len(alone), len(places) * len(options.get("batches") or [])
    _require(swept <= most, f"{swept} shapes of a sweep are told instead of {most}")
    beside, compared = facts.get("comparison") or [], facts.get("compared") or []
    for what, rows in (("latency", alone), ("comparison", beside), ("compared", compared)):
        if rows:
            _require_places(what, rows, places)
    for row in (*latency, *beside, *compared):
        _require_shapes(row["shapes"], interface)
        _require_times(row)
    named = set(chain.from_iterable(places)) if built is None else built
    _require_inputs([*latency, *beside, *compared], named)
    if facts.get("accuracy") is not None:
        _require_outputs(facts["accuracy"], recipe, interface)


def _require_places(what: str, rows: Sequence[Any], places: Sequence[Profile]) -> None:
    """Require one row for each place, in their order and within its profile."""
    _require(len(rows) == len(places), f"{what} has {len(rows)} shapes instead of {len(places)}")
    for number, (row, profile) in enumerate(zip(rows, places, strict=True)):
        for name, allowed in profile.items():
            shape = row["shapes"].get(name)
            if shape is not None:
                bounds = zip(allowed.min, shape, allowed.max, strict=False)
                fits = len(shape) == len(allowed.min) and all(a <= b <= c for a, b, c in bounds)
                _require(fits, f"{what} {number} was not measured within its profile")


def _require_inputs(rows: Sequence[Any], inputs: Collection[str]) -> None:
    """Require that every row says which inputs were fed: the same ones, and any if there are any.

    A runtime may leave out an input that nothing reads, so it need not be all of them.
    """
    told = {frozenset(row["shapes"]) for row in rows}
    _require(len(told) <= 1, "not the same inputs are told of everywhere")
    none = bool(inputs) and frozenset() in told
    _require(not none, f"no input has a shape, of {', '.join(sorted(inputs))[:80]!r}")


def _require_shapes(shapes: Mapping[str, list[int]], interface: Mapping[str, Any]) -> None:
    inputs = {row["name"]: row.get("shape") for row in interface["inputs"]}
    for name, shape in shapes.items():
        told = repr(name[:80])
        _require(name in inputs, f"{told} is no input of the model")
        rank = MOST_DIMS if inputs[name] is None else len(inputs[name])
        fits = len(shape) <= rank if inputs[name] is None else len(shape) == rank
        _require(fits, f"{told} has {len(shape)} dimensions")
        _require(all(0 <= dim <= LARGEST_DIM for dim in shape), f"{told} has no such dimension")


def _require_times(row: Mapping[str, Any]) -> None:
    sides = [row, *(row[side] for side in ("first", "second") if side in row)]
    spreads = [side["end_to_end_ms"] for side in sides if "end_to_end_ms" in side]
    medians = [spread["p50"] for spread in spreads]
    medians += [row[name] for name in ("twin_p50_ms", "engine_p50_ms") if name in row]
    _require(all(0 < each <= LONGEST_MS for each in medians), "a run takes no time, or for ever")
    most = [spread["max"] for spread in spreads]
    _require(all(each <= LONGEST_MS for each in most), "a run takes for ever")
    ratios = row.get("ratios") or []
    fit = all(1 / LONGEST_MS <= each <= LONGEST_MS for each in ratios)
    _require(fit, "no engine is so many times as fast as another")


def _require_outputs(
    accuracy: Mapping[str, Any], recipe: Mapping[str, Any], interface: Mapping[str, Any]
) -> None:
    wanted = {row["name"] for row in interface["outputs"]}
    wanted &= set(recipe.get("keep_outputs") or wanted)
    told = [row["output"] for row in accuracy["outputs"]] + list(accuracy.get("not_compared") or [])
    _require(len(told) == len(set(told)), "an output is told of twice")
    missing, more = sorted(wanted - set(told)), sorted(set(told) - wanted)
    _require(not missing, f"nothing is told of output {', '.join(missing)[:80]!r}")
    _require(not more, f"{', '.join(more)[:80]!r} is no output of the model")


def _require(holds: bool, message: str) -> None:  # noqa: FBT001 - reads as an assertion
    if not holds:
        raise ValueError(message)
