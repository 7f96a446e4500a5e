"""Whether profiles fit a model's inputs. Pure; every backend asks it the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from enginefarm.nearest import did_you_mean
from enginefarm.spec import Profile, ShapeRange
from enginefarm.views import TensorView
from workers.backends.base import Finding, Severity

DYNAMIC = -1


def shapes_of(views: Iterable[TensorView]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of inputs; a dimension that is no number is -1."""
    return {
        view.name: tuple(dim if isinstance(dim, int) else DYNAMIC for dim in view.shape)
        for view in views
    }


def misfits(shapes: Mapping[str, Sequence[int]], profiles: Sequence[Profile]) -> list[Finding]:
    """Return what is wrong with the profiles for these inputs. Pure."""
    dynamic = [name for name, shape in shapes.items() if DYNAMIC in shape]
    if dynamic and not profiles:
        return [
            error_finding(
                "profile_required",
                f"Input {name} has dynamic dimensions and there is no profile.",
                name,
                "Give min, opt and max shapes for it.",
            )
            for name in dynamic
        ]
    found: list[Finding] = []
    for number, profile in enumerate(profiles):
        found += [
            error_finding(
                "profile_missing_input",
                f"Profile {number} lacks the dynamic input {name}.",
                name,
                "Give min, opt and max shapes for it.",
            )
            for name in dynamic
            if name not in profile
        ]
        for name, wanted in profile.items():
            found += _range_misfits(number, name, wanted, shapes)
    return found


def _range_misfits(
    number: int, name: str, wanted: ShapeRange, shapes: Mapping[str, Sequence[int]]
) -> list[Finding]:
    if name not in shapes:
        fix = did_you_mean(name, shapes)
        text = f"Profile {number} names {name}, which is no input of the model."
        return [error_finding("profile_unknown_input", text, name, fix)]
    shape = shapes[name]
    triple = (wanted.min, wanted.opt, wanted.max)
    if any(len(dims) != len(shape) for dims in triple):
        text = f"Profile {number} gives {name} {len(wanted.opt)} dimensions; it has {len(shape)}."
        return [error_finding("profile_rank", text, name, "Give one number for each dimension.")]
    found = []
    for axis, (low, usual, high) in enumerate(zip(*triple, strict=True)):
        if not low <= usual <= high:
            text = f"Profile {number}, {name}, dimension {axis}: {low} <= {usual} <= {high} fails."
            found.append(
                error_finding("profile_order", text, name, "Order them min <= opt <= max.")
            )
        if shape[axis] not in (DYNAMIC, low) or (shape[axis] != DYNAMIC and low != high):
            text = (
                f"Profile {number}, {name}, dimension {axis}: the model fixes it to {shape[axis]}."
            )
            found.append(error_finding("profile_static_mismatch", text, name, "Give that number."))
    return found


def error_finding(code: str, message: str, where: str, fix: str) -> Finding:
    """Return a finding that stops the build."""
    return Finding(severity=Severity.ERROR, code=code, message=message, where=where, fix=fix)
