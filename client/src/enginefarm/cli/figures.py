"""Numbers and tensors as a person reads them."""

from __future__ import annotations

from enginefarm.views import TensorView

_DIGITS, _ENOUGH, _EXACT = 6, 11, 17


def size(count: int) -> str:
    """Return a size in bytes as a person reads it."""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:  # noqa: PLR2004 - SI units
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


def rounded(value: float, *, bound: str = "") -> str:
    """Return a number in six digits, or in as many as set it apart from ``bound``.

    0.99999987 that misses a bound of 1 is not shown as 1. Where there is no bound, what ten digits do
    not tell from a whole number is shown as one.
    """
    if value == round(value):
        return f"{value:.0f}"
    for digits in range(_DIGITS, _EXACT if bound else _ENOUGH):
        text = f"{value:.{digits}g}"
        if float(text) != round(value) and text not in bound.split():
            return text
    return repr(value) if bound else f"{value:.0f}"


def tensor(view: TensorView) -> str:
    """Return an input or output as text: ``x float32 [N, 3, ?, ?]``."""
    dims = ", ".join("?" if dim is None else str(dim) for dim in view.shape)
    return f"{view.name} {view.dtype} [{dims}]"
