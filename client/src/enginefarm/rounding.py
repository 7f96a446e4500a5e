"""How numbers are shortened for people: less than 1 is never shown as 1. Pure."""

from __future__ import annotations

_DIGITS, _ENOUGH, _EXACT = 6, 11, 17


def rounded(value: float, *, digits: int = _DIGITS, bound: str = "") -> str:
    """Return a finite number in ``digits`` digits, or in as many as set it apart from ``bound``.

    0.99999987 is not shown as 1, nor as a bound that it misses. Where there is no bound, what ten
    digits do not tell from a whole number is shown as one, but from below 1 as ``<1``.
    """
    if value == round(value):
        return f"{value:.0f}"
    for count in range(digits, _EXACT if bound else _ENOUGH):
        text = f"{value:.{count}g}"
        if float(text) != round(value) and text not in bound.split():
            return text
    if bound:
        return repr(value)
    return _below_one(value) or f"{value:.0f}"


def to_places(value: float, places: int) -> str:
    """Return a number with so many decimal places, or with the digits that tell it from 1."""
    text = f"{value:.{places}f}"
    taken_for_one = abs(value) < 1 and abs(float(text)) == 1
    return rounded(value) if taken_for_one else text


def _below_one(value: float) -> str | None:
    if abs(value) < 1 and round(abs(value)) == 1:
        return "<1" if value > 0 else ">-1"
    return None
