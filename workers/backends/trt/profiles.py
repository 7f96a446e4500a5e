"""Put a recipe's profiles on a builder's config, and say what this compiler minds in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from enginefarm.errors import JobFailed
from enginefarm.spec import Profile
from enginefarm.state import Blame
from workers.backends.base import Finding
from workers.backends.shapes import DYNAMIC, error_finding


def input_shapes(network: Any) -> dict[str, tuple[int, ...]]:  # noqa: ANN401 - the runtime's class
    """Return the network's inputs; a dynamic dimension is -1."""
    tensors = (network.get_input(index) for index in range(network.num_inputs))
    return {tensor.name: tuple(tensor.shape) for tensor in tensors}


def apply(builder: Any, config: Any, profiles: Sequence[Profile]) -> None:  # noqa: ANN401 - the runtime's classes
    """Add every profile to the config.

    Raises:
        JobFailed: the runtime refuses one (code ``invalid_profile``).
    """
    for number, profile in enumerate(profiles):
        made = builder.create_optimization_profile()
        for name, wanted in profile.items():
            made.set_shape(name, tuple(wanted.min), tuple(wanted.opt), tuple(wanted.max))
        if config.add_optimization_profile(made) < 0:
            raise JobFailed(
                f"Profile {number} was refused by the compiler.",
                blame=Blame.PERSON,
                code="invalid_profile",
                why="Its shapes do not fit the model's inputs.",
                fix="Give min <= opt <= max for every dynamic input.",
            )


def name_conflicts(network: Any, profile_list: Sequence[Profile]) -> list[Finding]:  # noqa: ANN401 - the runtime's class
    """Return dimensions that share a name in the model but can share no size in a profile.

    The compiler takes one name for one size, also a name like ``?`` that means nothing; ranges that
    overlap leave it a size.
    """
    tensors = [network.get_input(index) for index in range(network.num_inputs)]
    found = []
    for number, profile in enumerate(profile_list):
        ranges: dict[str, dict[tuple[int, int], str]] = {}
        for tensor in tensors:
            wanted = profile.get(tensor.name)
            for axis, size in enumerate(tensor.shape if wanted is not None else ()):
                name = tensor.get_dimension_name(axis)
                if wanted is None or size != DYNAMIC or not name:
                    continue
                ends = (wanted.min[axis], wanted.max[axis])
                ranges.setdefault(name, {}).setdefault(ends, f"{tensor.name}[{axis}]")
        found += [
            error_finding(
                "profile_dim_conflict",
                f"Profile {number} gives dimensions named {name!r} ranges without a common"
                " size; the compiler takes one name for one size.",
                ", ".join(places.values()),
                "Give these dimensions ranges that overlap, or export the model with a name of its"
                " own for each.",
            )
            for name, places in ranges.items()
            if max(low for low, _ in places) > min(high for _, high in places)
        ]
    return found


def value_inputs(network: Any) -> list[Finding]:  # noqa: ANN401 - the runtime's class
    """Return a finding for each input whose values decide shapes: a profile gives shapes only."""
    tensors = (network.get_input(index) for index in range(network.num_inputs))
    return [
        error_finding(
            "shape_tensor_input",
            f"The values of input {tensor.name} decide the shapes of other tensors.",
            tensor.name,
            "Make it a constant at export; profiles give shapes, not values.",
        )
        for tensor in tensors
        if tensor.is_shape_tensor
    ]
