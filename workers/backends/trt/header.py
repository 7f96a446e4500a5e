"""Read the header of an engine file, without CUDA: kind, version, length, architectures. Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

HEADER_BYTES = 64
KINDS = {b"vtrt": "tensorrt-rtx", b"ftrt": "tensorrt"}
_BITS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_120", "sm_121")
# What was built for each of them, and for several, has this bit, and no other, set.


@dataclass(frozen=True)
class EngineHeader:
    """What the first 64 bytes say. ``declared_bytes`` is absent in classic plans.

    ``archs``: those that there is code for; absent in classic plans, too, and where the second half
    does not begin as that of every engine that was looked at does.
    """

    kind: str
    version: str
    declared_bytes: int | None
    archs: tuple[str, ...] | None = None


def read_header(path: Path) -> EngineHeader | None:
    """Return the header, or None if this is no engine."""
    with path.open("rb") as stream:
        head = stream.read(HEADER_BYTES)
    kind = KINDS.get(head[:4])
    if len(head) < HEADER_BYTES or kind is None:
        return None
    version = ".".join(str(part) for part in head[24:28])
    if kind != "tensorrt-rtx":
        return EngineHeader(kind, version, None)
    declared = struct.unpack_from("<Q", head, 16)[0]
    return EngineHeader(kind, version, declared, _archs(head))


def _archs(head: bytes) -> tuple[str, ...] | None:
    bits = struct.unpack_from("<I", head, 32)[0]
    if head[28:32] != head[:4] or bits >> len(_BITS):
        return None
    return tuple(arch for number, arch in enumerate(_BITS) if bits >> number & 1)


def header_fault(path: Path, kind: str, version: str, archs: tuple[str, ...]) -> str | None:
    """Return what is wrong with an engine that was just written, or None."""
    header = read_header(path)
    if header is None:
        return "the file does not begin as an engine does"
    if header.kind != kind:
        return f"the file is a {header.kind} engine"
    if header.version != version:
        return f"the file names version {header.version}, the builder is {version}"
    size = path.stat().st_size
    if header.declared_bytes is not None and header.declared_bytes != size:
        return f"the header declares {header.declared_bytes} bytes, the file has {size}"
    if header.archs is not None and header.archs != archs:
        here = " and ".join(header.archs) or "no architecture"
        return f"it has code for {here}, and was to have it for {' and '.join(archs)}"
    return None
