"""Which of some versions of a backend or a tool is the newest. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def newest(versions: Iterable[str]) -> str | None:
    """Return the newest of some versions, if there is any."""
    return max(versions, key=_order, default=None)


def _order(version: str) -> tuple[tuple[int, str], ...]:
    parts = version.replace("-", ".").replace("+", ".").split(".")
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)
