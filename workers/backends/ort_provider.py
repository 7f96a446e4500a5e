"""Whether ONNX Runtime's CUDA provider can be loaded here, found without touching a GPU.

That it was built in says nothing of this machine: it needs CUDA's libraries in its own version, and
a driver that is new enough. To open a session would tell, too, but takes memory of a device that
another node may be measuring on, and fails where the device is full.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import onnxruntime as ort
from onnxruntime.capi import build_and_package_info

from tasks.messages import Device

CUDA = "CUDAExecutionProvider"
WITHOUT = "it was built without CUDA; the package onnxruntime-gpu has it"
PROVIDER = "libonnxruntime_providers_cuda.so"
_LOAD, _DYNAMIC, _NEEDED, _STRINGS = 1, 2, 1, 5


class _Segment(NamedTuple):
    """A row of an ELF file's program headers."""

    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    size: int
    in_memory: int
    align: int


def gpus_unused(gpus: Sequence[Device]) -> str | None:
    """Return why the runtime that is imported uses none of these GPUs, or None."""
    if not gpus:
        return None
    if CUDA not in ort.get_available_providers():
        return WITHOUT
    built_for = getattr(build_and_package_info, "cuda_version", None)
    return why_not(Path(ort.__file__).parent / "capi", built_for, gpus)


def why_not(folder: Path, built_for: str | None, gpus: Sequence[Device]) -> str | None:
    """Return why the provider in ``folder`` cannot run on these GPUs, or None.

    ``built_for`` is the CUDA that the runtime was built for, ``13.0``, if it tells.
    """
    for row in gpus:
        if built_for and row.cuda and _major(row.cuda) < _major(built_for):
            return (
                f"it was built for CUDA {built_for}, and the driver {row.driver} of {row.name} is"
                f" for CUDA {row.cuda}"
            )
    try:
        for name in needed(folder / PROVIDER):
            ctypes.CDLL(name)
    except (OSError, ValueError, struct.error) as error:
        return f"its CUDA provider does not load: {error}"
    return None


def needed(library: Path) -> list[str]:
    """Return which libraries the loader must find for a library, as its file names them.

    Raises:
        OSError: it is not there.
        ValueError: it is no 64-bit ELF file.
    """
    with (
        library.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        if data[:5] != b"\x7fELF\x02":
            message = f"{library.name} is no library of this machine"
            raise ValueError(message)
        return list(_needed(data))


def _needed(data: mmap.mmap) -> Iterator[str]:
    segments = list(_segments(data))
    dynamic = next((row for row in segments if row.kind == _DYNAMIC), None)
    if dynamic is None:
        return
    rows = list(struct.iter_unpack("<QQ", data[dynamic.offset : dynamic.offset + dynamic.size]))
    table = next(value for tag, value in rows if tag == _STRINGS)
    start = next(
        row.offset + table - row.address
        for row in segments
        if row.kind == _LOAD and row.address <= table < row.address + row.size
    )
    for at in [start + value for tag, value in rows if tag == _NEEDED]:
        yield data[at : data.find(b"\0", at)].decode()


def _segments(data: mmap.mmap) -> Iterator[_Segment]:
    (first,) = struct.unpack_from("<Q", data, 0x20)
    size, count = struct.unpack_from("<HH", data, 0x36)
    for number in range(count):
        yield _Segment(*struct.unpack_from("<IIQQQQQQ", data, first + number * size))


def _major(version: str) -> int:
    return int(version.partition(".")[0])
