"""Text that a column of the database can hold. Pure."""

from __future__ import annotations

from typing import Any


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
