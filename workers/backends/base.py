"""The one narrow port to a runtime: describe, check, compile, load.

Importing this imports no runtime. A backend module is imported only in a child process; what it
raises is a :class:`enginefarm.errors.FarmError` whose blame decides about a retry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from enginefarm.compile_options import TimingReuse
from enginefarm.finding import Finding
from enginefarm.spec import CompileOptions, Profile
from enginefarm.target import Target
from enginefarm.views import TensorView
from tasks.messages import BackendDescription, Device
from workers.backends.device_port import NotOnDevice as NotOnDevice  # noqa: PLC0414 - part of the port
from workers.timing import ChildTiming, TimingCaches

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]
else:
    Array = Any

MODEL_BYTES_IN_ONE_FILE = (1 << 31) - (1 << 20)
"""Protobuf's limit on one message, with room for what is not weights."""


class ProgressSink(Protocol):
    """Where a stage says how far it is, and where it hears that it shall stop."""

    def report(self, fraction: float | None, phase: str, detail: str = "") -> None:
        """Say how far the work is; ``None`` where the backend cannot tell."""

    @property
    def stopping(self) -> bool:
        """Whether the work shall end as soon as it can."""


@dataclass(frozen=True)
class TimingGiven:
    """The snapshot that a build begins with, if there is one, and where it leaves its own."""

    folder: Path
    snapshot: Path | None
    reuse: TimingReuse


@dataclass(frozen=True)
class ModelSource:
    """A model on disk for a target: the ONNX file, its external data beside it."""

    path: Path
    target: Target
    profiles: Sequence[Profile] = ()
    options: CompileOptions = field(default_factory=CompileOptions)
    timing: TimingGiven | None = None


@dataclass(frozen=True)
class Compiled:
    """An engine on disk and what the build said.

    ``layers`` is a file in which the engine tells of its layers; ``device_memory_bytes`` is what it
    needs on its device beside its weights. Where either is absent, ``inspection_reason`` says why.
    """

    path: Path
    warnings: list[str]
    layers: Path | None = None
    device_memory_bytes: int | None = None
    inspection_reason: str | None = None
    timing: ChildTiming | None = None


class Runner(Protocol):
    """A loaded engine."""

    inputs: list[TensorView]
    outputs: list[TensorView]
    threads: int

    def run(self, feeds: Mapping[str, Array]) -> list[Array | None]:
        """Run once, end to end; an output that is no tensor is ``None``."""


@dataclass(frozen=True)
class RunTimes:
    """Where the time of one run went, in ms; all but ``enqueue`` by the device's own events."""

    h2d: float
    enqueue: float
    compute: float
    d2h: float


class DeviceRunner(Protocol):
    """An engine whose inputs and outputs lie on a device, fed with the same inputs each time."""

    cuda_graph: bool

    def run(self) -> RunTimes:
        """Copy the inputs in, run, copy the outputs out, and wait for the end."""


@runtime_checkable
class RunsOnDevice(Protocol):
    """What a :class:`Runner` also is if its runtime lets data stay on a device."""

    def on_device(self, feeds: Mapping[str, Array], *, cuda_graph: bool) -> DeviceRunner:
        """Return the engine with these inputs bound, run once already.

        Raises:
            NotOnDevice: the engine, its inputs or its outputs do not allow it.
        """


@runtime_checkable
class LeavesRuntimeCache(Protocol):
    """What a :class:`Runner` also is whose runtime compiles kernels when it is first run."""

    def runtime_cache(self) -> bytes:
        """Return what has been compiled so far. It is code."""

    def started_again(self, cache: bytes) -> Runner | None:
        """Return the engine opened once more, with a cache; None if the runtime refuses that."""


@runtime_checkable
class RunsConcurrently(Protocol):
    """What a :class:`Runner` also is if several threads may run its engine at once."""

    def bound(self, feeds: Mapping[str, Array]) -> Callable[[], object]:
        """Return what runs the engine once with these inputs, to be called by one thread."""


class Backend(Protocol):
    """A runtime that builds engines and may be able to run them."""

    name: str
    engine_file: str

    def describe(self, devices: Sequence[Device]) -> BackendDescription:
        """Say in which version it is here, what it builds for and what it can run on."""

    def versions(self) -> dict[str, str]:
        """Return the versions of everything that has a say in the result."""

    def check(self, source: ModelSource) -> list[Finding]:
        """Return all that the runtime itself has against the model for the target."""

    def compile(self, source: ModelSource, out: Path, progress: ProgressSink) -> Compiled:
        """Build into the folder ``out``.

        Raises:
            JobFailed: the backend refused, was cancelled or broke.
        """

    def load(
        self, engine: Path, target: Target, threads: int, built: CompileOptions | None = None, /
    ) -> Runner:
        """Load an engine for measurement; ``threads`` 0 means one per available core.

        ``built`` has those options of its build that decide how it is opened.
        """


@runtime_checkable
class TimesKernels(Protocol):
    """A backend that times kernels, and can merge what builds have timed."""

    def timing_caches(self) -> TimingCaches:
        """Return what merges caches of its own version."""


@runtime_checkable
class TakesPlugins(Protocol):
    """A backend that can be given libraries with operators of somebody else's."""

    def take_plugin(self, library: Path) -> list[str] | None:
        """Load a library for all that this process does from now on.

        Returns the operators that it adds; None where the backend cannot tell.

        Raises:
            JobFailed: it does not load (code ``plugin_refused``).
        """


Clock = Callable[[], float]
