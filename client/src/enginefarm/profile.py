"""Optimization profiles against a model's inputs: what is missing, wrong or contradictory. Pure.

A profile gives the smallest, usual and largest shape of each dynamic input. Whether a backend can
build for it is another question, answered by the ``check`` stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from pydantic import JsonValue

from enginefarm.counted import counted
from enginefarm.dim_names import is_placeholder
from enginefarm.errors import InvalidProfile
from enginefarm.nearest import did_you_mean
from enginefarm.profile_text import as_flags, parse_shape_range, shape_text
from enginefarm.proposal import propose
from enginefarm.spec import Profile, ShapeRange
from enginefarm.views import TensorView

__all__ = [
    "as_flags",
    "check_profiles",
    "dynamic_inputs",
    "measured_at",
    "parse_shape_range",
    "propose",
]

Range = tuple[int, int, int]
_TOLD_INPUTS, _TOLD_CHARS = 32, 120


def dynamic_inputs(inputs: Sequence[TensorView]) -> list[TensorView]:
    """Return the inputs whose shape the model does not fix."""
    return [row for row in inputs if any(not isinstance(dim, int) for dim in row.shape)]


def check_profiles(inputs: Sequence[TensorView], profiles: Sequence[Profile]) -> None:
    """Check that the profiles fit the inputs.

    Raises:
        InvalidProfile: ``profile_required`` (with a proposal), ``profile_unknown_input``,
            ``profile_missing_input``, ``profile_rank``, ``profile_static_mismatch``,
            ``profile_order``, ``profile_zero_dim``, ``profile_dim_conflict``.
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
                    fix=did_you_mean(name, known) if known else "The model has no inputs.",
                    input=name[:80],
                )
            _check_shapes(number, known[name], shapes)
        _require_all(number, profile, inputs, dynamic)
        _check_names(number, known, profile)


def measured_at(
    profiles: Sequence[Profile], shapes: Sequence[Mapping[str, Sequence[int]]]
) -> list[Profile]:
    """Return what to measure at: each profile at its own opt, or at the shapes that are asked for.

    Each shape is measured under the first profile that holds it, as that profile's opt; one that
    none holds is left out.
    """
    if not shapes:
        return list(profiles)
    found = (next((row for row in profiles if _holds(row, each)), None) for each in shapes)
    return [
        {
            name: ShapeRange(min=row.min, opt=list(each[name]), max=row.max)
            for name, row in profile.items()
        }
        for each, profile in zip(shapes, found, strict=True)
        if profile is not None
    ]


def _holds(profile: Profile, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Tell whether a profile is of these inputs and allows these shapes."""
    return profile.keys() == shapes.keys() and all(
        len(shapes[name]) == len(row.min)
        and all(
            low <= dim <= high
            for low, dim, high in zip(row.min, shapes[name], row.max, strict=True)
        )
        for name, row in profile.items()
    )


def _require_profile(inputs: Sequence[TensorView], dynamic: Sequence[TensorView]) -> NoReturn:
    proposed = propose(inputs)
    names = ", ".join(
        f"{row.name[:_TOLD_CHARS]} {shape_text(row.shape)}" for row in dynamic[:_TOLD_INPUTS]
    )
    if len(dynamic) > _TOLD_INPUTS:
        names += f" and {len(dynamic) - _TOLD_INPUTS} more"
    dumped: dict[str, JsonValue] = {name: row.model_dump() for name, row in proposed.items()}
    if len(dynamic) > _TOLD_INPUTS:
        # Nobody reads more, and a model may have a hundred thousand.
        raise InvalidProfile(
            f"The model has dynamic inputs but the build has no profile: {names}.",
            code="profile_required",
            why="Compilers and measurements need the smallest, usual and largest shape of each.",
            fix="Add a profile with the shapes of your traffic for each of them.",
        )
    raise InvalidProfile(
        f"The model has dynamic inputs but the build has no profile: {names}.",
        code="profile_required",
        why="Compilers and measurements need the smallest, usual and largest shape of each.",
        fix=f"Add a profile with the shapes of your traffic, such as: {as_flags(proposed)}",
        proposed_profile=dumped,
        flags=as_flags(proposed),
    )


def _require_all(
    number: int, profile: Profile, inputs: Sequence[TensorView], dynamic: Sequence[TensorView]
) -> None:
    missing = [row.name for row in dynamic if row.name not in profile]
    if missing:
        proposed = propose(inputs)
        flags = as_flags({name: proposed[name] for name in missing})
        raise InvalidProfile(
            f"Profile {number} lacks the dynamic input{'s' * (len(missing) > 1)} "
            f"{', '.join(missing)}.",
            code="profile_missing_input",
            why="Each profile gives a shape range for every dynamic input.",
            fix=f"Add, with the shapes of your traffic, for example: {flags}",
            missing=list(missing),
            flags=flags,
        )


def _check_shapes(number: int, row: TensorView, shapes: ShapeRange) -> None:
    for which, shape in (("min", shapes.min), ("opt", shapes.opt), ("max", shapes.max)):
        if len(shape) != len(row.shape):
            raise InvalidProfile(
                f"Profile {number} gives {which} of input {row.name!r} "
                f"{counted(len(shape), 'dimension')}; "
                f"it has {len(row.shape)}.",
                code="profile_rank",
                why=f"The model declares it as {shape_text(row.shape)}.",
                fix="Give one number for each dimension.",
                input=row.name,
                profile=number,
            )
    for axis, dim in enumerate(row.shape):
        asked = (shapes.min[axis], shapes.opt[axis], shapes.max[axis])
        _check_axis(number, row, axis, dim, asked)


def _check_axis(
    number: int, row: TensorView, axis: int, dim: int | str | None, asked: Range
) -> None:
    low, usual, high = asked
    where = f"Profile {number}, input {row.name!r}, dimension {axis}"
    context: dict[str, JsonValue] = {
        "profile": number,
        "input": row.name,
        "axis": axis,
        "min": low,
        "opt": usual,
        "max": high,
    }
    if isinstance(dim, int):
        if any(value != dim for value in asked):
            raise InvalidProfile(
                f"{where}: the model fixes it to {dim}, the profile asks for {low}:{usual}:{high}.",
                code="profile_static_mismatch",
                why="A dimension that is a number in the file cannot be changed by a profile.",
                fix="Use the model's number, or export the model with this dimension dynamic "
                "(dynamic_shapes in torch.onnx.export).",
                **context,
                model=dim,
            )
    elif not low <= usual <= high:
        raise InvalidProfile(
            f"{where}: {low}:{usual}:{high} is out of order.",
            code="profile_order",
            why="Each dimension needs min <= opt <= max.",
            fix="Order the three numbers.",
            **context,
        )
    elif low == 0:
        raise InvalidProfile(
            f"{where}: it begins at 0.",
            code="profile_zero_dim",
            why="Few engines build for empty tensors, and none is measured with them.",
            fix="Begin at 1, and answer empty requests without the engine.",
            **context,
        )


def _check_names(number: int, known: Mapping[str, TensorView], profile: Profile) -> None:
    """Refuse dimensions of one name and different ranges: they are one size in every run."""
    first: dict[str, tuple[str, Range]] = {}
    for name, shapes in profile.items():
        for axis, dim in enumerate(known[name].shape):
            if not isinstance(dim, str) or is_placeholder(dim):
                continue
            asked = (shapes.min[axis], shapes.opt[axis], shapes.max[axis])
            place = f"{name}[{axis}]"
            there, before = first.setdefault(dim, (place, asked))
            if before != asked:
                raise InvalidProfile(
                    f"Profile {number} gives the dimension {dim!r} two ranges: "
                    f"{_colons(before)} in {there}, {_colons(asked)} in {place}.",
                    code="profile_dim_conflict",
                    why="The model uses one name for them, so they have one size in every run.",
                    fix="Give both the same range, or export the model with two names.",
                    profile=number,
                    dimension=dim,
                    places=[there, place],
                )


def _colons(asked: Range) -> str:
    return ":".join(map(str, asked))
