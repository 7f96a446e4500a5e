"""Read protobuf's wire format field by field, and skip what is not asked for by its length.

Pure Python over a memory map. Hostile input can cost neither memory (nothing is kept here) nor
time: every field is charged to a budget, and so is every byte of a skipped run of numbers.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_LENGTHS = {BYTES: 0, FIXED64: 8, FIXED32: 4}
_MAX_VARINT_BYTES = 10
_MORE = 0x80
_MASK64 = (1 << 64) - 1
_MAX_FIELD_NUMBER = (1 << 29) - 1
# Runs are skipped in pieces, so that another thread may work between two of them.
_PIECE = 1 << 20
_MAX_RUN_BYTES = 256 << 20
_ELEMENT = {
    VARINT: rb"[\x80-\xff]{0,9}+[\x00-\x7f]",
    FIXED64: rb".{8}",
    FIXED32: rb".{4}",
}


class WireError(ValueError):
    """The bytes are not protobuf."""

    def __init__(self, message: str, at: int) -> None:
        """Say what is wrong, and at which byte of the file."""
        super().__init__(message)
        self.at = at


class CutError(WireError):
    """The bytes end too early; ``missing`` is how many more there should have been, at least."""

    def __init__(self, at: int, missing: int) -> None:
        """Say where the field begins that has no end."""
        super().__init__(f"the field at byte {at} goes {missing} bytes beyond its end", at)
        self.missing = missing


class BudgetError(Exception):
    """The file has more parts than may be looked at."""


class Field(NamedTuple):
    """One field: its number, its wire type, and its value.

    The bytes of a field of type ``BYTES``, ``FIXED32`` or ``FIXED64`` lie from ``value`` to ``end``
    in the file; a ``VARINT`` is in ``value`` itself.
    """

    number: int
    kind: int
    value: int
    end: int


class Wire:
    """A file in protobuf's wire format, and how much of it may still be looked at."""

    def __init__(self, data: mmap.mmap | bytes, *, max_fields: int) -> None:
        """Read from ``data``; after ``max_fields`` fields, stop."""
        self.data = data
        self.size = len(data)
        self._fields_left = max_fields
        self._run_bytes_left = _MAX_RUN_BYTES

    def fields(  # noqa: C901 - the hot loop: a call for each branch would double its time
        self, start: int, end: int, wanted: Collection[int], *, runs: Collection[int] = ()
    ) -> Iterator[Field]:
        """Give the ``wanted`` fields of a message; read over the others, ``runs`` of them at once.

        Raises:
            WireError: not protobuf; ``CutError`` if it only ends too early.
            BudgetError: there are too many fields.
        """
        # Lengths of one byte, as nearly all are, are read in place.
        data, at = self.data, start
        while at < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise BudgetError
            begin, tag = at, data[at]
            at += 1
            if tag >= _MORE:
                tag, at = self._varint(begin, end)
            number, kind = tag >> 3, tag & 7
            if kind in _LENGTHS:
                length = _LENGTHS[kind]
                if kind == BYTES:
                    short = at < end and data[at] < _MORE
                    length, at = (data[at], at + 1) if short else self._varint(at, end)
                if length > end - at:
                    raise CutError(begin, length - (end - at))
                field = number, kind, at, at + length
                at += length
            elif kind == VARINT:
                value, at = self._varint(at, end)
                field = number, kind, value, at
            else:
                raise WireError(f"wire type {kind} is not used by ONNX", begin)
            if number in wanted:
                yield Field(*field)
            elif not 1 <= number <= _MAX_FIELD_NUMBER:
                raise WireError(f"there is no field number {number}", begin)
            if number in runs and kind != BYTES:
                at = self._after_run(tag, kind, at, end)

    def packed(self, field: Field) -> Iterator[int]:
        """Give the signed numbers of a repeated integer field, which may be packed or single."""
        if field.kind == VARINT:
            yield signed(field.value)
            return
        if field.kind != BYTES:
            raise WireError("a whole number is expected", field.value)
        position = field.value
        while position < field.end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise BudgetError
            value, position = self._varint(position, field.end)
            yield signed(value)

    def slice(self, field: Field) -> bytes:
        """Return the bytes of a field."""
        return self.data[field.value : field.end]

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        """Return the number at an offset, and the offset behind it."""
        data, value = self.data, 0
        for count in range(_MAX_VARINT_BYTES):
            at = position + count
            if at >= end:
                raise CutError(position, 1)
            byte = data[at]
            if byte < _MORE:
                return (value | byte << (7 * count)) & _MASK64, at + 1
            value |= (byte & 0x7F) << (7 * count)
        raise WireError("a number is longer than ten bytes", position)

    def _after_run(self, tag: int, kind: int, position: int, end: int) -> int:
        """Read over a run of one repeated field: some writers spend a field on each number."""
        if tag >= _MORE or position >= end or self.data[position] != tag:
            return position
        run = re.compile(b"(?:%b%b)*+" % (re.escape(bytes([tag])), _ELEMENT[kind]), re.DOTALL)
        while True:
            match = run.match(self.data, position, min(end, position + _PIECE))
            skipped = match.end() - position if match is not None else 0
            self._run_bytes_left -= skipped
            if self._run_bytes_left < 0:
                raise BudgetError
            if skipped == 0:
                return position
            position += skipped


def signed(value: int) -> int:
    """Return a 64-bit varint as the signed number it stands for."""
    return value - (1 << 64) if value >> 63 else value


def low32(value: int) -> int:
    """Return what a reader keeps of a number where the schema has 32 bits."""
    return value & 0xFFFFFFFF
