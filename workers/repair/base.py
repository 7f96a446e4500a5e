"""What a pass is given and what it gives back. Imports no runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from enginefarm.spec import FixedInput, Profile, SyntheticInput
from enginefarm.views import TensorView


@dataclass(frozen=True)
class Ground:
    """What passes may know beside the model: what was asked for, and for what it is built.

    ``declared`` are the original's inputs; ``inputs`` those that are left when what was asked for
    is fixed, with the shapes that they then have.
    """

    backend: str
    folder: Path
    declared: Sequence[TensorView] = ()
    inputs: Sequence[TensorView] = ()
    profiles: Sequence[Profile] = ()
    fixed: Mapping[str, FixedInput] = field(default_factory=dict)
    synthetic: Mapping[str, SyntheticInput] = field(default_factory=dict)
    keep_outputs: Sequence[str] = ()
    """The only outputs that are wanted; empty: all."""
    prune_inputs: bool = False
    drop_defaults: bool = False
    """Whether inputs with default values are wanted as weights."""


class NotApplied(Exception):
    """A pass cannot do its work on this model; the text is the end of a sentence."""


Pass = Callable[[onnx.ModelProto, Ground], str | None]
"""Changes the model it is given and says, in words, what it changed; None where nothing is to do.

Raises:
    NotApplied: it would be of use, but cannot be done here.
    FarmError: what was asked for cannot be done.
"""
