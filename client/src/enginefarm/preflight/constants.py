"""Read the numbers of a small constant off the wire, in whichever of ONNX's ways it keeps them."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from enginefarm.protobuf_wire import BYTES, VARINT, Field, Wire

Number = int | float
MAX_VALUES = 1024
_FLOATS, _INT32S, _INT64S, _RAW, _DOUBLES, _UINT64S = 4, 5, 7, 9, 10, 11
_KINDS = frozenset({_FLOATS, _INT32S, _INT64S, _RAW, _DOUBLES, _UINT64S})
_FORMATS = {
    "float32": "f", "float64": "d", "float16": "e", "bool": "?",
    "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "bfloat16": "H",
}  # fmt: skip
_HALF = {"float16", "bfloat16"}


def numbers_of(wire: Wire, field: Field, dtype: str, count: int) -> tuple[Number, ...] | None:
    """Return the values of a tensor, or None if they are not ``count`` numbers of a plain type."""
    if dtype not in _FORMATS:
        return None
    found: list[Number] = []
    for row in wire.fields(field.value, field.end, _KINDS):
        for value in _of_field(wire, row, dtype):
            found.append(value)
            if len(found) > count:
                return None
    return tuple(found) if len(found) == count else None


def _of_field(wire: Wire, row: Field, dtype: str) -> Iterator[Number]:
    if row.number == _RAW:
        yield from _unpacked(wire.slice(row), _FORMATS[dtype], dtype)
    elif row.number == _FLOATS and row.kind != VARINT:
        yield from _unpacked(wire.slice(row), "f", dtype)
    elif row.number == _DOUBLES and row.kind != VARINT:
        yield from _unpacked(wire.slice(row), "d", dtype)
    elif row.kind in {VARINT, BYTES}:
        for value in wire.packed(row):
            # Half floats are kept as the bits of a whole number.
            yield _from_bits(value & 0xFFFF, dtype) if dtype in _HALF else value


def _unpacked(raw: bytes, letter: str, dtype: str) -> Iterator[Number]:
    size = struct.calcsize(f"<{letter}")
    for (value,) in struct.iter_unpack(f"<{letter}", raw[: len(raw) // size * size]):
        yield _from_bits(value, dtype) if dtype == "bfloat16" else value


def _from_bits(bits: int, dtype: str) -> float:
    if dtype == "bfloat16":
        return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])
    return float(struct.unpack("<e", struct.pack("<H", bits))[0])
