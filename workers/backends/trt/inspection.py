"""Open an engine that was just built, where its GPU is, and let it tell of its layers and memory.

Nothing of it decides whether the build is good: what cannot be opened here says why.
"""

from __future__ import annotations

import json
import mmap
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from enginefarm.compile_options import CompileOptions, RuntimePlatform
from workers.backends.trt.recording import Record, plain
from workers.diagnosis import shorten

NO_GPU = "not opened: the node that built it has no GPU"
OTHER_SYSTEM = "not opened: it was built for another system than the node's"


@dataclass(frozen=True)
class Inspection:
    """What an engine tells: its device memory in bytes without weights, its layers as JSON."""

    device_memory_bytes: int | None = None
    layers: str | None = None
    reason: str | None = None


def inspect(
    trt: ModuleType,
    logger: Any,  # noqa: ANN401 - the runtime's class
    engine_file: Path,
    options: CompileOptions,
    record: Record,
) -> Inspection:
    """Open an engine and ask it; without a GPU nothing is tried."""
    if not record.has_gpu:
        return Inspection(reason=NO_GPU)
    if options.runtime_platform not in {None, RuntimePlatform.SAME_AS_BUILD}:
        return Inspection(reason=OTHER_SYSTEM)
    return opened(trt, logger, engine_file, options, record)


def opened(
    trt: ModuleType,
    logger: Any,  # noqa: ANN401 - the runtime's class
    engine_file: Path,
    options: CompileOptions,
    record: Record,
) -> Inspection:
    """Do as :func:`inspect` does, whatever the host has."""
    said_before = len(record.errors)
    runtime = trt.Runtime(logger)
    if options.version_compatible:
        # Such an engine carries code for the host. It was built by this process a moment ago.
        runtime.engine_host_code_allowed = True
    with (
        engine_file.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as held,
    ):
        engine = runtime.deserialize_cuda_engine(held)
    if engine is None:
        said = [plain(text) for text in record.errors[said_before:]]
        why = f": {shorten(said[-1], 200)}" if said else ""
        return Inspection(reason=f"not opened: the runtime refused it{why}")
    inspector = engine.create_engine_inspector()
    told = inspector.get_engine_information(trt.LayerInformationFormat.JSON)
    memory = int(engine.device_memory_size_v2)
    return Inspection(memory, *_whole(told))


def _whole(told: str) -> tuple[str | None, str | None]:
    """Return the layers if they are whole JSON, else why they are left out."""
    try:
        json.loads(told)
    except ValueError as error:
        return None, f"the runtime's list of layers is no JSON: {error}"
    return told, None
