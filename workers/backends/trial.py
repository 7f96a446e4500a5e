"""Try a model at the ends of its profile before it is built: sizes that it cannot take show here.

Only failures of shape count. Synthetic values may be wrong for a model (an index out of range), and
that is not the profile's fault. A failure is one of shape if the runtime's words say so, or if
values of the same kind are taken at another shape and refused at this one twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from enginefarm.errors import JobFailed
from enginefarm.finding import Finding, error_finding, note_finding
from enginefarm.spec import Profile, ShapeRange
from enginefarm.target import Target
from workers.backends.base import Runner
from workers.diagnosis import Runtime, diagnose, refuse_node_fault, shorten
from workers.measurement import inputs

MOST_ELEMENTS = 4_000_000
"""Larger inputs are not tried: the check must stay quick. Which were left out is said."""

ENDS = ("min", "opt", "max")
COMMON_STEP = 32
"""Networks that halve an image five times take multiples of this."""

SMALLEST_SIDE = 8
"""Below it a dimension counts something (a batch, colours) and is no length."""

_NEVER_THE_VALUES = frozenset({"shape_mismatch", "unsupported_attribute"})
"""Said of sizes, or of a node that can never run: that is not due to made-up values."""

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class _Tried:
    """What came of running once."""

    shapes: Shapes
    said: str | None = None
    too_large: bool = False

    @property
    def ran(self) -> bool:
        return self.said is None and not self.too_large

    @property
    def of_shape(self) -> bool:
        row = diagnose(self.said, Runtime.ONNXRUNTIME) if self.said is not None else None
        return row is not None and row.code in _NEVER_THE_VALUES


def trial_runs(runner: Runner, profiles: Sequence[Profile], target: Target) -> list[Finding]:
    """Run at min, opt and max of every profile, up to the first profile that does not fit.

    Raises:
        JobFailed: the node is to blame for what did not run: its memory ran out, say.
    """
    found: list[Finding] = []
    for number, profile in enumerate(profiles):
        tried = {
            which: result for which in ENDS if (result := _try(runner, profile, which)) is not None
        }
        found += [
            _not_tried(f"profile {number}, {which}")
            for which, result in tried.items()
            if result.too_large
        ]
        for result in tried.values():
            refuse_node_fault(result.said or "", Runtime.ONNXRUNTIME, target)
        for which, result in tried.items():
            if _is_at_fault(runner, result, tried):
                return [*found, _finding(runner, f"profile {number}, {which}", result, tried)]
    return found


def _try(runner: Runner, profile: Profile, which: str) -> _Tried | None:
    try:
        shapes = {view.name: inputs.shape_at(view, profile, which) for view in runner.inputs}
    except JobFailed:
        return None  # nothing says which shape to try
    return _run(runner, shapes)


def _run(runner: Runner, shapes: Shapes, seed: int = 0) -> _Tried | None:
    """Run once on made-up values; None where no values can be made for an input."""
    if sum(math.prod(shape) for shape in shapes.values()) > MOST_ELEMENTS:
        return _Tried(shapes, too_large=True)
    fixed = {
        name: ShapeRange(min=list(shape), opt=list(shape), max=list(shape))
        for name, shape in shapes.items()
    }
    try:
        feeds = inputs.synthetic(runner.inputs, fixed, {}, np.random.default_rng(seed))
    except JobFailed:
        return None
    try:
        runner.run(feeds)
    except Exception as error:  # noqa: BLE001 - the binding raises a class for each status
        return _Tried(shapes, said=str(error))
    return _Tried(shapes)


def _is_at_fault(runner: Runner, result: _Tried, tried: Mapping[str, _Tried]) -> bool:
    if result.said is None:
        return False
    if result.of_shape:
        return True
    if not any(other.ran for other in tried.values()):
        return False  # it may be the values
    again = _run(runner, result.shapes, seed=1)
    return again is not None and again.said is not None


def _finding(runner: Runner, place: str, result: _Tried, tried: Mapping[str, _Tried]) -> Finding:
    runs = [other.shapes for other in tried.values() if other.ran]
    nearby = _rounded_up(runner, result.shapes)
    if nearby != result.shapes:
        other = _run(runner, nearby)
        runs += [nearby] if other is not None and other.ran else []
    where = " or at ".join(dict.fromkeys(_text(shapes) for shapes in runs))
    known = f"It runs at {where}: narrow the profile to sizes like these." if runs else ""
    advice = (
        "Give a profile of sizes that the model takes (networks that halve an image take multiples"
        f" of {COMMON_STEP}, say)."
    )
    baked = (
        ""
        if runs
        else " If a size was baked in at export, export again with dynamic shapes, or"
        " give a profile of exactly that shape."
    )
    said = shorten(result.said or "", 300)
    return error_finding(
        "profile_not_runnable",
        f"The original model does not run at {_text(result.shapes)}: {said}",
        where=place,
        fix=(known or advice) + baked,
    )


def _rounded_up(runner: Runner, shapes: Shapes) -> Shapes:
    """Return the next sizes that many networks take; what the model fixes stays."""
    return {
        view.name: [
            dim
            if isinstance(fixed, int) or dim < SMALLEST_SIDE
            else math.ceil(dim / COMMON_STEP) * COMMON_STEP
            for dim, fixed in zip(shapes[view.name], view.shape, strict=True)
        ]
        for view in runner.inputs
    }


def _text(shapes: Shapes) -> str:
    """Return shapes as a profile is written: ``x=1x3x64x64``."""
    return ",".join(
        f"{name}={'x'.join(map(str, shape))}" for name, shape in shapes.items() if shape
    )


def _not_tried(place: str) -> Finding:
    return note_finding(
        "profile_not_tried",
        f"The model was not tried at {place}: more than {MOST_ELEMENTS:,} input elements.",
        where=place,
    )
