"""Protobuf and ZIP written by hand, as nobody who means well writes them."""

from __future__ import annotations

import io
import random
import struct
import zipfile

import numpy as np

_MORE = 0x80


def varint(number: int) -> bytes:
    """Return a number in protobuf's own form."""
    out = bytearray()
    while number >= _MORE:
        out.append(number & 0x7F | _MORE)
        number >>= 7
    return bytes([*out, number])


def field(number: int, data: bytes) -> bytes:
    """Return a field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def top_fields(data: bytes) -> list[bytes]:
    """Return the outermost fields of a good file, each with its tag."""
    found, at = [], 0
    while at < len(data):
        begin = at
        tag, at = _read(data, at)
        if tag & 7 == 2:  # noqa: PLR2004 - bytes
            length, at = _read(data, at)
            at += length
        else:
            _, at = _read(data, at)
        found.append(data[begin:at])
    return found


def _read(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < _MORE:
            return value, at


def whole(graph: bytes) -> bytes:
    """Return a model around a graph."""
    return b"\x08\x09" + field(7, graph) + field(8, b"\x10\x11")


def nested_graphs(depth: int) -> bytes:
    """Return a graph in an attribute of a node in a graph, and so on."""
    graph = b""
    for _ in range(depth):
        graph = field(1, field(4, b"If") + field(5, field(6, graph)))
    return whole(graph)


def nested_types(depth: int) -> bytes:
    """Return an input that is a sequence of sequences, and so on."""
    kind = b""
    for _ in range(depth):
        kind = field(4, field(1, kind))
    return whole(field(11, field(1, b"x") + field(2, kind)))


def npz(chance: random.Random) -> bytes:
    """Return a good dataset."""
    stream = io.BytesIO()
    rows = chance.randrange(1, 5)
    save = chance.choice((np.savez, np.savez_compressed))
    save(stream, x=np.ones((rows, 4), np.float32), ids=np.arange(rows))
    return stream.getvalue()


def object_array() -> bytes:
    """Return an array that only a pickle can read."""
    stream = io.BytesIO()
    np.save(stream, np.array([{}, 1], dtype=object), allow_pickle=True)
    return stream.getvalue()


def array(shape: str, descr: str = "'<f4'", data: bytes = b"") -> bytes:
    """Return an array whose header says what it likes."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """Return an archive with these members, whatever they are called."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members.items():
            # Without a date of its own: the same members are the same bytes.
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return stream.getvalue()


def lying_sizes(data: bytes, chance: random.Random) -> bytes:
    """Return an archive whose directory says other sizes than its members have."""
    out = bytearray(data)
    at = data.find(b"PK\x01\x02")
    if at >= 0:
        struct.pack_into("<I", out, at + chance.choice((20, 24, 42)), chance.getrandbits(32))
    return bytes(out)
