"""Open an engine of TensorRT or TensorRT-RTX on the GPU that is here, and start it.

One source for both. What only TensorRT-RTX has, a runtime config and its cache, is in
``rtx_running``.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from enginefarm.errors import JobFailed
from enginefarm.state import Blame
from enginefarm.views import TensorView
from workers.backends.device_port import TimedStream
from workers.backends.trt.growing import Room
from workers.backends.trt.recording import Record, plain
from workers.diagnosis import Runtime, diagnose, shorten

_NUMPY = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BOOL": "bool",
    **{name.upper(): name for name in ("int8", "int32", "int64", "uint8")},
}


@dataclass(frozen=True)
class Site:
    """The runtime, imported, with its one logger, and a stream on the device that it runs on."""

    trt: ModuleType
    logger: Any
    record: Record
    stream: TimedStream
    another: Callable[[], TimedStream]
    """What opens one more stream on the device."""


@dataclass(frozen=True)
class Started:
    """A context of an engine, with what it asks for room: that must live as long as it does."""

    context: Any
    growing: dict[str, Room] = field(default_factory=dict)


class Opened:
    """An engine that the runtime has taken in."""

    def __init__(self, site: Site, path: Path, *, host_code: bool = False) -> None:
        """Open a file; ``host_code``: it carries some for the host, and may run it.

        Raises:
            JobFailed: the runtime does not open it (``engine_load_failed``), or it has an input or
                output of a type that no array here has (``not_measurable_here``).
        """
        self.site, self.trt, said_before = site, site.trt, len(site.record.errors)
        self._runtime = runtime = site.trt.Runtime(site.logger)  # it must outlive the engine
        if host_code:
            runtime.engine_host_code_allowed = True
        if not path.stat().st_size:
            raise not_here("The engine is empty", "engine_load_failed")
        with (
            path.open("rb") as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as held,
        ):
            self.engine = runtime.deserialize_cuda_engine(held)
        if self.engine is None:
            raise self.refused("does not open the engine", "engine_load_failed", said_before)
        views = [self._view(number) for number in range(self.engine.num_io_tensors)]
        self.inputs = [view for mode, view in views if mode == self.trt.TensorIOMode.INPUT]
        self.outputs = [view for mode, view in views if mode == self.trt.TensorIOMode.OUTPUT]

    @property
    def said(self) -> int:
        """How many errors the runtime has told so far."""
        return len(self.site.record.errors)

    def started(self, *, timed: bool = False) -> Started:
        """Start the engine; ``timed``: to be timed on its device, with no kernel to be made later.

        Raises:
            JobFailed: the runtime does not (``engine_load_failed``).
        """
        said_before = self.said
        context = self._context(timed=timed)
        if context is None:
            raise self.refused("does not start the engine", "engine_load_failed", said_before)
        return Started(context)

    def capturable(self, started: Started, stream: int) -> bool:  # noqa: ARG002 - as said
        """Tell whether the runtime knows of nothing against a capture; TensorRT is not asked."""
        return True

    def refused(self, what: str, code: str, said_before: int) -> JobFailed:
        """Return the failure for what the runtime does not do, in its own words.

        The code is another where these are known, and the model is not to blame for them.
        """
        rows = self.site.record.errors
        # What was said before is not kept twice, so it may be what is said now.
        said = rows[said_before:] or rows[-1:]
        # The first is mostly the reason, and those after it what came of it.
        why = shorten(" | ".join(map(plain, said)), 300) if said else "it gives no reason"
        row = diagnose(why, Runtime.TENSORRT)
        known = row is not None and row.blame is not Blame.PERSON
        return not_here(f"The runtime {what}: {why}", row.code if row and known else code)

    def _context(self, *, timed: bool) -> Any:  # noqa: ANN401, ARG002 - the runtime's class; all is made at the build
        return self.engine.create_execution_context()

    def _view(self, number: int) -> tuple[Any, TensorView]:
        engine = self.engine
        name = engine.get_tensor_name(number)
        kind = _NUMPY.get(engine.get_tensor_dtype(name).name)
        if kind is None:
            why = f"{name} is of type {engine.get_tensor_dtype(name).name}"
            raise not_here(why, "not_measurable_here")
        shape = [None if dim < 0 else int(dim) for dim in engine.get_tensor_shape(name)]
        return engine.get_tensor_mode(name), TensorView(name=name, dtype=kind, shape=shape)


def not_here(why: str, code: str) -> JobFailed:
    """Return the failure of an engine that cannot be measured, for a reason."""
    return JobFailed(
        "The engine cannot be measured on this node.",
        blame=Blame.NODE,
        code=code,
        why=f"{why}.",
        fix="Read the job's log; try a node with another driver or GPU.",
    )
