"""The shapes at which something was measured, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def shapes_text(shapes: Mapping[str, Sequence[int]]) -> str:
    """Return shapes as ``image 1x3x640x640``, those of several inputs one after another."""
    return ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in shapes.items())
