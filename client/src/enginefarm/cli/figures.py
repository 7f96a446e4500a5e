"""Sizes and tensors as a person reads them."""

from __future__ import annotations

from enginefarm.views import TensorView


def size(count: int) -> str:
    """Return a size in bytes as a person reads it."""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:  # noqa: PLR2004 - SI units
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


def tensor(view: TensorView) -> str:
    """Return an input or output as text: ``x float32 [N, 3, ?, ?]``."""
    dims = ", ".join("?" if dim is None else str(dim) for dim in view.shape)
    return f"{view.name} {view.dtype} [{dims}]"
