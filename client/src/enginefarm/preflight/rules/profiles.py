"""Whether the profiles fit the model's inputs: all that is wrong with them, at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from enginefarm.counted import counted
from enginefarm.dim_names import is_placeholder
from enginefarm.finding import Finding, at_tensors, error_finding, note_finding
from enginefarm.nearest import did_you_mean
from enginefarm.preflight.rules.grouping import refusal
from enginefarm.preflight.subject import Rule, Subject
from enginefarm.profile import as_flags, dynamic_inputs, propose
from enginefarm.spec import Profile, ShapeRange
from enginefarm.views import TensorView

DYNAMIC = -1
_MOST_PROPOSED = 32
_GIVE = "Give min, opt and max shapes for it."


def fit_inputs(subject: Subject) -> Iterator[Finding]:
    """Profiles that lack an input, name one that is not there, or contradict the model."""
    inputs = subject.facts.inputs
    for found in misfits(shapes_of(inputs), subject.profiles):
        few = len(dynamic_inputs(inputs)) <= _MOST_PROPOSED
        if found.code == "profile_required" and few:
            fix = f"Give the shapes of your traffic, such as: {as_flags(propose(inputs))}"
            yield found.model_copy(update={"fix": fix})
        else:
            yield found


def shapes_of(views: Sequence[TensorView]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of inputs; a dimension that is no number is -1."""
    return {
        view.name: tuple(dim if isinstance(dim, int) else DYNAMIC for dim in view.shape)
        for view in views
    }


def misfits(shapes: Mapping[str, Sequence[int]], profiles: Sequence[Profile]) -> Iterator[Finding]:
    """Return what is wrong with the profiles for inputs of these shapes."""
    dynamic = [name for name, shape in shapes.items() if DYNAMIC in shape]
    if not profiles:
        for name in dynamic:
            yield at_tensors(
                error_finding(
                    "profile_required",
                    f"Input {name} has dynamic dimensions and there is no profile.",
                    fix=_GIVE,
                ),
                [name],
            )
    for number, profile in enumerate(profiles):
        for name in dynamic:
            if name not in profile:
                yield at_tensors(
                    error_finding(
                        "profile_missing_input",
                        f"Profile {number} lacks the dynamic input {name}.",
                        fix=_GIVE,
                    ),
                    [name],
                )
        for name, wanted in profile.items():
            for found in _of_range(number, name, wanted, shapes):
                yield at_tensors(found, [name])


def _of_range(
    number: int, name: str, wanted: ShapeRange, shapes: Mapping[str, Sequence[int]]
) -> Iterator[Finding]:
    if name not in shapes:
        text = f"Profile {number} names {name}, which is no input of the model."
        fix = did_you_mean(name, shapes) if shapes else "The model has no inputs."
        yield error_finding("profile_unknown_input", text, fix=fix)
        return
    shape = shapes[name]
    triple = (wanted.min, wanted.opt, wanted.max)
    if any(len(dims) != len(shape) for dims in triple):
        given = counted(len(wanted.opt), "dimension")
        text = f"Profile {number} gives {name} {given}; it has {len(shape)}."
        yield error_finding("profile_rank", text, fix="Give one number for each dimension.")
        return
    for axis, (low, usual, high) in enumerate(zip(*triple, strict=True)):
        place = f"Profile {number}, {name}, dimension {axis}"
        if not low <= usual <= high:
            text = f"{place}: {low} <= {usual} <= {high} fails."
            yield error_finding("profile_order", text, fix="Order them min <= opt <= max.")
        if shape[axis] == DYNAMIC and low == 0:
            yield error_finding(
                "profile_zero_dim",
                f"{place}: it begins at 0.",
                why="Few engines build for empty tensors, and none is measured with them.",
                fix="Begin at 1, and answer empty requests without the engine.",
            )
        if shape[axis] != DYNAMIC and {low, usual, high} != {shape[axis]}:
            text = f"{place}: the model fixes it to {shape[axis]}, not {low}:{usual}:{high}."
            fix = "Give that number, or export with this dimension dynamic (dynamic_shapes)."
            yield error_finding("profile_static_mismatch", text, fix=fix)


def names_that_share_no_size(subject: Subject) -> Iterator[Finding]:
    """Dimensions of one name and ranges without a common size; a name like ? is a name, too."""
    for number, profile in enumerate(subject.profiles):
        for name, places in _ranges(subject.facts.inputs, profile).items():
            ends = list(places)
            told = ", ".join(places.values())
            if max(low for low, _ in ends) > min(high for _, high in ends):
                message = (
                    f"Profile {number} gives dimensions named {name!r} ranges without a common"
                    " size."
                )
                fix = (
                    "Give these dimensions ranges that overlap, or export the model with a name of"
                    " its own for each."
                )
                if subject.capabilities.names_are_sizes or not is_placeholder(name):
                    why = "One name stands for one size in every run."
                    yield refusal(
                        subject, "profile_dim_conflict", message, why=why, fix=fix, where=told
                    )
            elif len(ends) > 1 and is_placeholder(name) and subject.capabilities.names_are_sizes:
                yield note_finding(
                    "dim_name_placeholder",
                    f"The name {name!r} stands for several dimensions, and means nothing.",
                    why=f"{subject.capabilities.label} takes one name for one size in every run.",
                    fix="Export the model with a name of its own for each dimension.",
                    where=told,
                )


def _ranges(
    inputs: Sequence[TensorView], profile: Profile
) -> dict[str, dict[tuple[int, int], str]]:
    found: dict[str, dict[tuple[int, int], str]] = {}
    for view in dynamic_inputs(inputs):
        wanted = profile.get(view.name)
        if wanted is None or not len(wanted.min) == len(wanted.max) == len(view.shape):
            continue
        for axis, name in enumerate(view.shape):
            if isinstance(name, str):
                ends = (wanted.min[axis], wanted.max[axis])
                if ends[0] > ends[1]:
                    continue  # of a range in the wrong order its own finding says enough
                found.setdefault(name, {}).setdefault(ends, f"{view.name}[{axis}]")
    return found


def agreed(inputs: Sequence[TensorView], profile: Profile) -> Profile:
    """Return the profile with one range for all dimensions of one name, where they share a size.

    One name is one size in every run, so only that range can ever be asked for.
    """
    places = {
        name: ends
        for name, ends in _ranges(inputs, profile).items()
        if len(ends) > 1 and not is_placeholder(name)
    }
    common = {
        name: (max(low for low, _ in ends), min(high for _, high in ends))
        for name, ends in places.items()
    }
    names = {view.name: view.shape for view in inputs}

    def within(input_name: str, sizes: list[int]) -> list[int]:
        found = list(sizes)
        for axis, name in enumerate(names.get(input_name, [])[: len(sizes)]):
            low, high = common.get(name, (1, 0)) if isinstance(name, str) else (1, 0)
            if low <= high:
                found[axis] = min(max(sizes[axis], low), high)
        return found

    return {
        name: ShapeRange(
            min=within(name, row.min), opt=within(name, row.opt), max=within(name, row.max)
        )
        for name, row in profile.items()
    }


RULES: tuple[Rule, ...] = (fit_inputs, names_that_share_no_size)
