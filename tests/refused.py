"""Whether something is refused, as a value, so that a test can say that it is not."""

from __future__ import annotations

from collections.abc import Callable

from enginefarm.errors import FarmError


def refused_with(check: Callable[..., object], *arguments: object) -> str | None:
    """Return the code with which a check refuses these arguments, or None if it does not."""
    try:
        check(*arguments)
    except FarmError as error:
        return error.code
    return None
