"""Optimization profiles against a model's inputs: what is missing, wrong or contradictory. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from pydantic import JsonValue

from enginefarm.errors import InvalidProfile
from enginefarm.nearest import did_you_mean
from enginefarm.spec import Profile, ShapeRange
from enginefarm.views import TensorView

_SHAPE = re.compile(r"^\d+(x\d+)*$")
_RANGE_PARTS = 3
_LONG = ("seq", "length", "time", "frame", "sample")


def dynamic_inputs(inputs: Sequence[TensorView]) -> list[TensorView]:
    """Return the inputs whose shape is not fixed by the model."""
    return [row for row in inputs if any(not isinstance(dim, int) for dim in row.shape)]


def check_profiles(inputs: Sequence[TensorView], profiles: Sequence[Profile]) -> None:
    """Check that the profiles fit the inputs.

    Raises:
        InvalidProfile: ``profile_required`` (with a proposal), ``profile_unknown_input``,
            ``profile_missing_input``, ``profile_rank``, ``profile_order``,
            ``profile_static_mismatch``, ``profile_zero_dim``.
    """
    dynamic = dynamic_inputs(inputs)
    if dynamic and not profiles:
        _require_profile(inputs, dynamic)
    known = {row.name: row for row in inputs}
    for number, profile in enumerate(profiles):
        for name, shapes in profile.items():
            if name not in known:
                raise InvalidProfile(
                    f"Profile {number} names an input {name[:80]!r} that the model does not have.",
                    code="profile_unknown_input",
                    fix=did_you_mean(name, known),
                    input=name[:80],
                )
            _check_shapes(known[name], shapes)
        missing = [row.name for row in dynamic if row.name not in profile]
        if missing:
            raise InvalidProfile(
                f"Profile {number} lacks the input(s) {', '.join(missing)}.",
                code="profile_missing_input",
                why="Each profile gives a shape range for every dynamic input.",
                fix=f"Add, for example, {as_flags(propose(inputs), only=missing)}.",
                missing=list(missing),
            )


def propose(inputs: Sequence[TensorView]) -> Profile:
    """Return a cautious profile for the dynamic inputs: a place to start, not a recommendation.

    The first dimension is taken for the batch (1, 1, 8); others by their names: sequences
    (16, 128, 512), and what has no telling name (64, 224, 640).
    """
    return {
        row.name: ShapeRange(
            min=[_proposed(dim, at)[0] for at, dim in enumerate(row.shape)],
            opt=[_proposed(dim, at)[1] for at, dim in enumerate(row.shape)],
            max=[_proposed(dim, at)[2] for at, dim in enumerate(row.shape)],
        )
        for row in dynamic_inputs(inputs)
    }


def as_flags(profile: Profile, only: Sequence[str] | None = None) -> str:
    """Return a profile as ``--profile`` flags, ready to be pasted."""
    return " ".join(
        f"--profile {name}={':'.join(_text(s) for s in (shapes.min, shapes.opt, shapes.max))}"
        for name, shapes in profile.items()
        if only is None or name in only
    )


def parse_shape_range(text: str) -> ShapeRange:
    """Read ``MIN:OPT:MAX`` or one shape for all three, each like ``1x3x224x224``.

    Raises:
        InvalidProfile: it is neither (code ``profile_syntax``).
    """
    parts = text.strip().split(":")
    if len(parts) == 1:
        parts *= _RANGE_PARTS
    if len(parts) != _RANGE_PARTS or not all(_SHAPE.match(part) for part in parts):
        raise InvalidProfile(
            f"{text[:120]!r} is not a shape range.",
            code="profile_syntax",
            fix="Write MIN:OPT:MAX, for example 1x3x160x160:1x3x320x480:4x3x960x960.",
        )
    low, usual, high = ([int(dim) for dim in part.split("x")] for part in parts)
    return ShapeRange(min=low, opt=usual, max=high)


def _require_profile(inputs: Sequence[TensorView], dynamic: Sequence[TensorView]) -> NoReturn:
    proposed = propose(inputs)
    names = ", ".join(f"{row.name} {_shown(row)}" for row in dynamic)
    dumped: dict[str, JsonValue] = {name: s.model_dump() for name, s in proposed.items()}
    raise InvalidProfile(
        f"The model has dynamic inputs but the build has no profile: {names}.",
        code="profile_required",
        why="Compilers and measurements need the smallest, usual and largest shapes.",
        fix=f"Add a profile, for example {as_flags(proposed)}, with the shapes of your traffic.",
        proposed_profile=dumped,
        flags=as_flags(proposed),
    )


def _check_shapes(row: TensorView, shapes: ShapeRange) -> None:
    for which, shape in (("min", shapes.min), ("opt", shapes.opt), ("max", shapes.max)):
        if len(shape) != len(row.shape):
            raise InvalidProfile(
                f"{which} of input {row.name!r} has {len(shape)} dimensions, "
                f"the model's has {len(row.shape)}.",
                code="profile_rank",
                why=f"The model declares {row.name} as {_shown(row)}.",
                fix="Give one number for each dimension.",
                input=row.name,
            )
    for axis, dim in enumerate(row.shape):
        _check_axis(row, axis, dim, (shapes.min[axis], shapes.opt[axis], shapes.max[axis]))


def _check_axis(
    row: TensorView, axis: int, dim: int | str | None, asked: tuple[int, int, int]
) -> None:
    low, usual, high = asked
    context: dict[str, JsonValue] = {
        "input": row.name,
        "axis": axis,
        "min": low,
        "opt": usual,
        "max": high,
    }
    if isinstance(dim, int):
        if any(value != dim for value in asked):
            raise InvalidProfile(
                f"Dimension {axis} of input {row.name!r} is {dim} in the model, "
                f"not {low}:{usual}:{high}.",
                code="profile_static_mismatch",
                why="That dimension is fixed in the file; no profile can change it.",
                fix="Use the model's number, or export with dynamic_axes / dynamic_shapes.",
                **context,
                model=dim,
            )
        return
    if not low <= usual <= high:
        raise InvalidProfile(
            f"Dimension {axis} of input {row.name!r} is out of order: {low}:{usual}:{high}.",
            code="profile_order",
            why="Each dimension needs min <= opt <= max.",
            fix="Swap or mend the numbers.",
            **context,
        )
    if low == 0:
        raise InvalidProfile(
            f"Dimension {axis} of input {row.name!r} starts at 0.",
            code="profile_zero_dim",
            why="Few engines build for empty tensors, and none is measured with them.",
            fix="Start at 1 and answer empty requests without the engine.",
            **context,
        )


def _proposed(dim: int | str | None, axis: int) -> tuple[int, int, int]:
    if isinstance(dim, int):
        return dim, dim, dim
    if axis == 0:
        return 1, 1, 8
    if isinstance(dim, str) and any(word in dim.lower() for word in _LONG):
        return 16, 128, 512
    return 64, 224, 640


def _text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _shown(row: TensorView) -> str:
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in row.shape) + "]"
