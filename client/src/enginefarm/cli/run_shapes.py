"""The shapes at which ``enginefarm run`` tries an engine: its profile's, or what a person names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from enginefarm.counted import counted
from enginefarm.errors import InvalidRequest
from enginefarm.manifest import EngineConfig
from enginefarm.nearest import did_you_mean
from enginefarm.profile_text import shape_text
from enginefarm.views import TensorView

Shapes = Mapping[str, list[int]]


def shapes_of_run(
    config: EngineConfig, asked: Shapes, *, outside_profile: bool
) -> dict[str, list[int]]:
    """Return a shape for each input that has a profile or is named.

    Raises:
        InvalidRequest: ``unknown_input``, ``shape_refused``, or ``outside_profile`` unless that is
            meant.
    """
    inputs = {row.name: row for row in map(TensorView.model_validate, config.inputs)}
    for name, shape in asked.items():
        if name not in inputs:
            raise unknown_input(name, list(inputs))
        _require_like(inputs[name], shape)
    chosen = _usual(config) | dict(asked)
    if asked and config.profiles and not outside_profile:
        _require_inside(config, chosen)
    return chosen


def require_not_fixed(config: EngineConfig, names: Iterable[str]) -> None:
    """Refuse values for what the engine no longer takes.

    Raises:
        InvalidRequest: ``input_fixed``.
    """
    for name in names:
        fixed = config.fixed_inputs.get(name)
        if fixed is not None and fixed.value is not None:
            raise InvalidRequest(
                f"The input {name[:80]!r} is fixed in this engine: it always is {fixed.value}.",
                code="input_fixed",
                why="The build asked for that, so the engine has no such input.",
                fix="Leave it out, or build an engine without fixing it.",
            )


def unknown_input(name: str, known: Sequence[str]) -> InvalidRequest:
    """Return the refusal of an input that the engine does not have."""
    return InvalidRequest(
        f"The engine has no input {name[:80]!r}.",
        code="unknown_input",
        why=f"Its inputs are {', '.join(known)}.",
        fix=did_you_mean(name, known),
    )


def _require_like(row: TensorView, shape: list[int]) -> None:
    same = len(shape) == len(row.shape) and all(
        not isinstance(dim, int) or dim == asked
        for dim, asked in zip(row.shape, shape, strict=True)
    )
    if not same:
        raise InvalidRequest(
            f"The input {row.name!r} cannot have the shape {_written(shape)}.",
            code="shape_refused",
            why=f"The engine declares it as {shape_text(row.shape)}.",
            fix="Give one number for each dimension, and the engine's own where it has one.",
        )


def _require_inside(config: EngineConfig, chosen: Shapes) -> None:
    if any(_is_inside(profile, chosen) for profile in config.profiles):
        return
    profile = config.profiles[0]
    ranges = [
        f"{name} from {_end(profile, name, 0)} to {_end(profile, name, -1)}" for name in profile
    ]
    tried = ", ".join(f"{name}={_written(shape)}" for name, shape in chosen.items())
    raise InvalidRequest(
        f"{tried} lies outside of what the engine was built and measured for.",
        code="outside_profile",
        why=f"Its profile takes {', '.join(ranges)}."
        if len(config.profiles) == 1
        else f"None of its {counted(len(config.profiles), 'profile')} takes all of it.",
        fix="Name a shape inside, or try it all the same with --outside-profile.",
    )


def _is_inside(profile: Mapping[str, JsonValue], chosen: Shapes) -> bool:
    for name in profile:
        bounds = _bounds(profile, name)
        shape = chosen.get(name)
        if shape is None or bounds is None or any(len(end) != len(shape) for end in bounds):
            return False
        low, _, high = bounds
        if not all(a <= b <= c for a, b, c in zip(low, shape, high, strict=True)):
            return False
    return True


def _usual(config: EngineConfig) -> dict[str, list[int]]:
    """Return the shapes that the engine was made for, if it has a profile."""
    profile = config.profiles[0] if config.profiles else {}
    found = {name: _bounds(profile, name) for name in profile}
    return {name: bounds[1] for name, bounds in found.items() if bounds is not None}


def _bounds(
    profile: Mapping[str, JsonValue], name: str
) -> tuple[list[int], list[int], list[int]] | None:
    bounds = profile[name]
    if not isinstance(bounds, dict):
        return None
    low, usual, high = (_dims(bounds.get(which)) for which in ("min", "opt", "max"))
    return low, usual, high


def _dims(value: JsonValue) -> list[int]:
    return [dim for dim in value if isinstance(dim, int)] if isinstance(value, list) else []


def _end(profile: Mapping[str, JsonValue], name: str, which: int) -> str:
    bounds = _bounds(profile, name)
    return "?" if bounds is None else _written(bounds[which])


def _written(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
