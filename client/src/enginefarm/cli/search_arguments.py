"""What ``--precision auto`` is told: requirements, budget, and what may be tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from enginefarm.cli import arguments, gate_arguments
from enginefarm.errors import InvalidRequest
from enginefarm.gate_direction import require_direction
from enginefarm.nearest import did_you_mean
from enginefarm.precision import PrecisionKind
from enginefarm.search import MAX_CANDIDATES, SearchSpec, require_one_target
from enginefarm.spec_errors import explain

AUTO = "auto"
_LISTS = frozenset({"kinds", "methods", "tools", "op_types", "exclude"})
_BUDGET_EXAMPLE = "12, 12,30m or 30m"
_PROFILE_EXAMPLE = "small:x=1x3x160x160:1x3x320x320:2x3x320x320"


def asked_kind(text: str) -> PrecisionKind:
    """Return the kind of precision that a text names."""
    if text not in set(PrecisionKind):
        raise InvalidRequest(
            f"There is no precision {text[:40]!r}.",
            code="invalid_argument",
            fix=did_you_mean(text, [*PrecisionKind, AUTO]),
        )
    return PrecisionKind(text)


def space_asked(finer: JsonValue) -> JsonValue:
    """Return the space of a search, as ``--option precision.…`` says it; lists by commas."""
    given = finer if isinstance(finer, dict) else {}
    return {
        name: [part.strip() for part in str(value).split(",")] if name in _LISTS else value
        for name, value in given.items()
    }


@dataclass(frozen=True)
class Wanted:
    """What was typed of a search: its space, bounds, budget, and by what it chooses."""

    space: JsonValue
    require: Sequence[str] | None
    budget: str | None
    prefer: str | None
    profiles: Sequence[str] | None


def searched(wanted: Wanted, *, plan: bool) -> dict[str, JsonValue] | None:
    """Return what a search is asked for beside its build; None where there is no space."""
    space = wanted.space
    if space is None:
        _require_none(wanted)
        return None
    if plan:
        raise InvalidRequest(
            "A search cannot be planned.",
            code="invalid_argument",
            why="What it tries depends on what came of what it tried before.",
            fix="Leave out --dry-run and --explain; --budget bounds how many engines it builds.",
        )
    profiles = tried_profiles(wanted.profiles or [])
    return {
        "require": gate_arguments.gates(wanted.require or [], gate_arguments.Ifs()),
        "prefer": wanted.prefer,
        "space": {**space, "profiles": profiles} if isinstance(space, dict) else space,
        "budget": _budget(wanted.budget),
    }


def tried_profiles(texts: Sequence[str]) -> dict[str, JsonValue]:
    """Read ``name:input=min:opt:max`` into profiles by name; a name may come again."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, colon, shapes = text.partition(":")
        if not colon or "=" in name:
            raise arguments.refusal("--try-profile", text, _PROFILE_EXAMPLE)
        found.setdefault(name.strip(), []).append(shapes)
    return {
        name: arguments.plain_profiles(arguments.profiles(shapes, "--try-profile"))
        for name, shapes in found.items()
    }


def _require_none(wanted: Wanted) -> None:
    named = {
        "--require": wanted.require,
        "--budget": wanted.budget,
        "--prefer": wanted.prefer,
        "--try-profile": wanted.profiles,
    }
    given = [name for name, value in named.items() if value]
    if given:
        raise InvalidRequest(
            f"{given[0]} is for searches, and none is asked for.",
            code="invalid_argument",
            fix="Add --precision auto, or write a bound as --gate.",
        )


def _budget(text: str | None) -> dict[str, JsonValue]:
    """Read ``12`` as so many candidates, ``30m`` as a time, ``12,30m`` as both."""
    read: dict[str, JsonValue] = {}
    if text is None:
        return read
    for part in text.split(","):
        plain = part.strip().isdigit()
        name = "candidates" if plain else "seconds"
        if name in read:
            raise arguments.refusal("--budget", text, _BUDGET_EXAMPLE)
        read[name] = int(part) if plain else _time(part, text)
    if not 1 <= int(str(read.get("candidates", 1))) <= MAX_CANDIDATES:
        why = f"A search tries 1 to {MAX_CANDIDATES} candidates; a time has its unit, such as 90s."
        raise arguments.refusal("--budget", text, _BUDGET_EXAMPLE, why)
    return read


def _time(part: str, text: str) -> int:
    try:
        return arguments.seconds(part, "--budget")
    except InvalidRequest as error:
        raise arguments.refusal("--budget", text, _BUDGET_EXAMPLE) from error


def valid_search(asked: Mapping[str, JsonValue]) -> SearchSpec:
    """Read the body of a search.

    Raises:
        InvalidRequest: it does not fit; the error names the field, or it is for several targets.
    """
    try:
        read = SearchSpec.model_validate(asked)
    except ValidationError as error:
        raise explain(error, SearchSpec) from error
    require_one_target(read)
    for gate in (*read.require, *read.build.gates):
        require_direction(gate)
    return read
