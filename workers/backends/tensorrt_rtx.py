"""TensorRT-RTX: real engines, ahead of time, on any x86-64 Linux machine; runs them on an RTX GPU.

Precision is a property of the model file; there is no flag for it. Importing this imports the
runtime: only ``registry.open_backend`` does, in a child process.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from enginefarm.errors import JobFailed
from enginefarm.finding import Finding
from enginefarm.state import Blame
from enginefarm.target import BACKEND_ARCHITECTURES, Target
from tasks.messages import BackendDescription, Device
from workers.backends.base import Compiled, ModelSource, NotOnDevice, ProgressSink, Runner
from workers.backends.cuda_driver import CudaDriver
from workers.backends.device_port import TimedStream
from workers.backends.rtx_running import RtxRunner
from workers.backends.trt import compiler
from workers.backends.trt.running import open_site

LABEL = "TensorRT-RTX"


def _import_runtime() -> ModuleType:
    """Import the meta package's name where it is installed, else the bindings it stands for."""
    try:
        return importlib.import_module("tensorrt_rtx")
    except ModuleNotFoundError as error:
        if error.name != "tensorrt_rtx":
            raise
        return importlib.import_module("tensorrt_rtx_bindings")


def open_backend() -> TensorRTRTX:
    """Return the backend, its runtime imported."""
    return TensorRTRTX(_import_runtime())


class TensorRTRTX:
    """See :class:`workers.backends.base.Backend`."""

    name = "tensorrt-rtx"
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
        """Builds for every architecture it can generate code for; runs those of GPUs here.

        Whether a node takes such measurements is for its operator to say.
        """
        self._compiler.require_builder()
        builds = [arch for arch in BACKEND_ARCHITECTURES[self.name] if self._capability(arch)]
        return BackendDescription(
            name=self.name,
            version=self._compiler.version,
            builds=builds,
            measures=sorted({row.arch for row in devices} & set(builds)),
        )

    def versions(self) -> dict[str, str]:
        """The runtime; the CUDA it is for is part of its distribution's name."""
        return {self.name: self._compiler.version, "onnx": importlib.metadata.version("onnx")}

    def check(self, source: ModelSource) -> list[Finding]:
        """See :meth:`Compiler.check`."""
        return self._compiler.check(source)

    def compile(self, source: ModelSource, out: Path, progress: ProgressSink) -> Compiled:
        """Build one file for every architecture of the target; this machine's need not be among."""
        archs = source.target.archs
        capabilities = [self._capability(arch) for arch in archs]
        unknown = [arch for arch, found in zip(archs, capabilities, strict=True) if found is None]
        if unknown:
            raise JobFailed(
                f"{LABEL} {self._compiler.version} cannot build for {', '.join(unknown)}.",
                blame=Blame.NODE,
                code="unsupported_architecture",
            )

        def aim(config: Any) -> bool:  # noqa: ANN401 - the runtime's class
            config.num_compute_capabilities = len(capabilities)
            taken = [config.set_compute_capability(row, n) for n, row in enumerate(capabilities)]
            return all(taken) and config.num_compute_capabilities == len(capabilities)

        return self._compiler.compile(source, out, progress, aim)

    def load(self, engine: Path, target: Target, *_: object) -> Runner:
        """Open an engine on the GPU that this process sees; threads of the host run nothing.

        Raises:
            JobFailed: there is none (``not_measurable_here``), or the runtime does not open it.
        """
        try:
            site = open_site(self._compiler, self._stream)
        except NotOnDevice as error:
            raise self._compiler.not_measurable(engine, target, str(error)) from error
        return RtxRunner(site, engine, target)

    def _capability(self, arch: str) -> Any:  # noqa: ANN401 - the runtime's enum
        kinds = self._compiler.trt.ComputeCapability
        return getattr(kinds, arch.replace("sm_", "SM"), None)
