"""TensorRT 10.13 and newer, and 11: builds on the GPU that the engine is for, and runs it there.

One sequence of calls with TensorRT-RTX (``trt.compiler``, ``trt.running``). Precision is a property
of the model file also for 10.x: its precision flags are not used. Importing this imports the
runtime: only ``registry.open_backend`` does, in a child process.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from enginefarm.compile_options import CompileOptions
from enginefarm.errors import JobFailed
from enginefarm.finding import Finding
from enginefarm.state import Blame
from enginefarm.target import BACKEND_ARCHITECTURES, Target
from tasks.messages import BackendDescription, Device
from workers.backends.base import Compiled, ModelSource, NotOnDevice, ProgressSink, Runner
from workers.backends.cuda_driver import CudaDriver
from workers.backends.device_port import TimedStream
from workers.backends.trt import compiler, timing
from workers.backends.trt.opening import Opened
from workers.backends.trt.running import EngineRunner, open_site
from workers.timing import TimingCaches

LABEL = "TensorRT"
OLDEST, NEXT_MAJOR = (10, 13), 12
_CUDA_MAJORS = (13, 12)


def open_backend() -> TensorRT:
    """Return the backend, its runtime imported."""
    return TensorRT(importlib.import_module("tensorrt"))


class TensorRT:
    """See :class:`workers.backends.base.Backend`."""

    name = "tensorrt"
    engine_file = compiler.ENGINE_FILE

    def __init__(
        self,
        trt: ModuleType,
        *,
        has_gpu: bool | None = None,
        stream: Callable[[], TimedStream] = CudaDriver,
    ) -> None:
        """Take the runtime; whether the host has a GPU is looked up unless it is said."""
        self._stream = stream
        seen = compiler.gpu_visible() if has_gpu is None else has_gpu
        self._compiler = compiler.Compiler(trt, self.name, LABEL, has_gpu=seen)

    def describe(self, devices: Sequence[Device]) -> BackendDescription:
        """Builds for the GPU that is here, and runs engines on it.

        Whether a node takes such measurements is for its operator to say.

        Raises:
            RuntimeError: the version is not one that this source is written for, or it is not
                certain which GPU an engine would be built on.
        """
        _require_version(self._compiler.version)
        self._compiler.require_builder()
        builds = [_only_gpu(devices)] if devices else []
        return BackendDescription(
            name=self.name,
            version=self._compiler.version,
            builds=builds,
            measures=builds,
            on_device=builds,
            cuda=built_for_cuda(),
        )

    def versions(self) -> dict[str, str]:
        """The runtime, and the CUDA that it was built for if its distribution tells."""
        told = {self.name: self._compiler.version, "onnx": importlib.metadata.version("onnx")}
        cuda = built_for_cuda()
        return told if cuda is None else told | {"cuda": cuda}

    def take_plugin(self, library: Path) -> list[str] | None:
        """See :meth:`Compiler.take_plugin`."""
        return self._compiler.take_plugin(library)

    def check(self, source: ModelSource) -> list[Finding]:
        """See :meth:`Compiler.check`."""
        return self._compiler.check(source)

    def compile(self, source: ModelSource, out: Path, progress: ProgressSink) -> Compiled:
        """Build for the GPU that is here; that it is the target's was asked at the claim."""
        return self._compiler.compile(source, out, progress, aim=lambda _config: True)

    def timing_caches(self) -> TimingCaches:
        """Return what merges timing caches of this version."""
        it = self._compiler
        return timing.TensorRTTimingCaches(it.trt, it.logger, it.record)

    def load(
        self,
        engine: Path,
        target: Target,
        threads: int,  # noqa: ARG002 - none of the host runs anything
        built: CompileOptions | None = None,
    ) -> Runner:
        """Open an engine on the GPU that this process sees.

        Raises:
            JobFailed: there is none (``not_measurable_here``), the engine lacks its weights
                (``engine_stripped``), or the runtime does not open it.
        """
        told = built or CompileOptions()
        if told.strip_plan:
            raise _stripped(target)
        try:
            site = open_site(self._compiler, self._stream)
        except NotOnDevice as error:
            raise self._compiler.not_measurable(engine, target, str(error)) from error
        # Such a plan carries the lean runtime, which is code for the host. It may run here since
        # this very engine was built so by the farm; in any other, TensorRT refuses what it finds.
        opened = Opened(site, engine, host_code=bool(told.version_compatible))
        return EngineRunner(opened, target)


def _stripped(target: Target) -> JobFailed:
    return JobFailed(
        f"The engine for {target} cannot be run: its weights are not in it.",
        blame=Blame.PERSON,
        code="engine_stripped",
        why="It was built with options.compile.strip_plan, and a refit must put them in first.",
        fix="Measure it after the refit, or build without strip_plan.",
    )


def _require_version(version: str) -> None:
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    if not OLDEST <= numbers < (NEXT_MAJOR,):
        oldest = ".".join(map(str, OLDEST))
        message = f"{LABEL} {version} is not one of {oldest} up to, not including, {NEXT_MAJOR}"
        raise RuntimeError(message)


def _only_gpu(devices: Sequence[Device]) -> str:
    """Return the architecture of the GPUs that are here, if they are all of one kind."""
    kinds = {(row.arch, row.name) for row in devices if row.arch != "cpu"}
    if not kinds:
        message = f"{LABEL} builds on the GPU that the engine is for, and none is visible"
        raise RuntimeError(message)
    if len(kinds) > 1:
        seen = ", ".join(sorted(name for _, name in kinds))
        message = f"GPUs of several kinds are visible ({seen}): start one node for each kind"
        raise RuntimeError(message)
    arch = kinds.pop()[0]
    if arch not in BACKEND_ARCHITECTURES[TensorRT.name]:
        message = f"the farm knows no target {TensorRT.name}@{arch}"
        raise RuntimeError(message)
    return arch


def built_for_cuda() -> str | None:
    """Return the CUDA major that the installed runtime was built for; None if it is not certain."""
    found = set()
    for major in _CUDA_MAJORS:
        for part in ("_bindings", "_libs", ""):
            try:
                importlib.metadata.version(f"tensorrt_cu{major}{part}")
            except importlib.metadata.PackageNotFoundError:
                continue
            found.add(str(major))
    return found.pop() if len(found) == 1 else None
