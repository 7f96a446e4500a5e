"""Read the header of an engine file, without CUDA: kind, version, length. Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

HEADER_BYTES = 64
KINDS = {b"vtrt": "tensorrt-rtx", b"ftrt": "tensorrt"}


@dataclass(frozen=True)
class EngineHeader:
    """What the first 64 bytes say. ``declared_bytes`` is absent in classic plans."""

    kind: str
    version: str
    declared_bytes: int | None


def read_header(path: Path) -> EngineHeader | None:
    """Return the header, or None if this is no engine."""
    with path.open("rb") as stream:
        head = stream.read(HEADER_BYTES)
    kind = KINDS.get(head[:4])
    if len(head) < HEADER_BYTES or kind is None:
        return None
    declared = struct.unpack_from("<Q", head, 16)[0] if kind == "tensorrt-rtx" else None
    return EngineHeader(kind, ".".join(str(part) for part in head[24:28]), declared)


def header_fault(path: Path, kind: str, version: str) -> str | None:
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
    return None
