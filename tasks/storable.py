"""What columns of the database can hold, and the farm can work with. Pure."""

from __future__ import annotations

import json
from typing import Any

_BEYOND = 1 << 64


def storable(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a message in which all text can be kept.

    Raises:
        ValueError: some text holds what no database column can.
    """
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
            message = "text holds a NUL character or half of a surrogate pair"
            raise ValueError(message)
    elif isinstance(value, dict):
        for key, part in value.items():
            storable(key), storable(part)
    elif isinstance(value, list):
        for part in value:
            storable(part)
    return value


def check_storable(value: object) -> None:
    """Refuse what cannot be kept or worked with: NaN, infinities, endless numbers, NUL characters.

    Raises:
        ValueError: says which it is.
    """
    json.dumps(value, allow_nan=False)
    _require_kept(value)


def _require_kept(value: object) -> None:
    if isinstance(value, str):
        _require(holds="\0" not in value, message="text contains a NUL character")
        value.encode()  # refuses half of a surrogate pair
    elif isinstance(value, dict):
        for key, part in value.items():
            _require_kept(key)
            _require_kept(part)
    elif isinstance(value, list | tuple):
        for part in value:
            _require_kept(part)
    elif isinstance(value, int):
        # One beyond what a float holds would end whoever divides by it, long after it was taken.
        within = -_BEYOND < value < _BEYOND
        _require(holds=within, message="a whole number has more than 64 bits")


def _require(*, holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)
