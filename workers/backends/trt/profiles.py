"""Put a recipe's profiles on a builder's config, and say what this compiler minds in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from enginefarm.errors import JobFailed
from enginefarm.finding import Finding, at_tensors, error_finding
from enginefarm.spec import Profile
from enginefarm.state import Blame


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


def value_inputs(network: Any) -> list[Finding]:  # noqa: ANN401 - the runtime's class
    """Return a finding for each input whose values decide shapes: a profile gives shapes only."""
    tensors = (network.get_input(index) for index in range(network.num_inputs))
    return [
        at_tensors(
            error_finding(
                "shape_tensor_input",
                f"The values of input {tensor.name} decide the shapes of other tensors.",
                fix="Make it a constant at export; profiles give shapes, not values.",
            ),
            [tensor.name],
        )
        for tensor in tensors
        if tensor.is_shape_tensor
    ]
