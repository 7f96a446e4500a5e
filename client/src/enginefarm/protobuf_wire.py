"""Read protobuf's wire format, field by field, without loading what is skipped.

Pure Python over a memory map: nothing is allocated but small integers and views, so hostile input
can cost time (which is bounded by a budget of fields) but not memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10
_MAX_FIELD = (1 << 29) - 1


class WireError(ValueError):
    """The bytes are not protobuf; ``truncated`` tells whether they merely end too early."""

    def __init__(self, message: str, *, truncated: bool = False) -> None:
        """Say what is wrong."""
        super().__init__(message)
        self.truncated = truncated


class Budget:
    """How many fields may still be read."""

    def __init__(self, fields: int) -> None:
        """Allow ``fields`` fields."""
        self.left = fields

    def spend(self) -> None:
        """Count one field."""
        self.left -= 1
        if self.left < 0:
            raise WireError("the file has too many fields")


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its number, its wire type, and either a number or where its bytes are."""

    number: int
    kind: int
    value: int = 0
    start: int = 0
    end: int = 0


def fields(data: memoryview, start: int, end: int, budget: Budget) -> Iterator[Field]:
    """Give the fields of the message that lies between two offsets.

    Raises:
        WireError: not protobuf, or more fields than the budget allows.
    """
    position = start
    while position < end:
        budget.spend()
        tag, position = varint(data, position, end)
        number, kind = tag >> 3, tag & 7
        if not 1 <= number <= _MAX_FIELD:
            raise WireError(f"field number {number} cannot be")
        if kind == VARINT:
            value, position = varint(data, position, end)
            yield Field(number, kind, value=value)
            continue
        if kind == BYTES:
            length, position = varint(data, position, end)
        elif kind in {FIXED64, FIXED32}:
            length = 8 if kind == FIXED64 else 4
        else:
            raise WireError(f"wire type {kind} is not used by ONNX")
        if length > end - position:
            raise WireError(
                f"a field of {length} bytes at offset {position} goes beyond the end",
                truncated=True,
            )
        yield Field(number, kind, start=position, end=position + length)
        position += length


def varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """Return the number at an offset and the offset behind it."""
    value = 0
    for count in range(_MAX_VARINT_BYTES):
        if position >= end:
            raise WireError("the file ends inside a number", truncated=True)
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return value & ((1 << 64) - 1), position
    raise WireError("a number is longer than ten bytes")


def text(data: memoryview, field: Field, limit: int = 4096) -> str:
    """Return a short text field.

    Raises:
        WireError: too long, or not UTF-8.
    """
    if field.end - field.start > limit:
        raise WireError(f"a name of {field.end - field.start} bytes is too long")
    try:
        return bytes(data[field.start : field.end]).decode()
    except UnicodeDecodeError as error:
        raise WireError("a name is not UTF-8") from error


def signed(value: int) -> int:
    """Return a 64-bit varint as the signed number it stands for."""
    return value - (1 << 64) if value >= 1 << 63 else value


def packed(data: memoryview, field: Field, budget: Budget) -> Iterator[int]:
    """Give the numbers of a repeated int64 field, packed or not."""
    if field.kind == VARINT:
        yield signed(field.value)
        return
    position = field.start
    while position < field.end:
        budget.spend()
        value, position = varint(data, position, field.end)
        yield signed(value)
