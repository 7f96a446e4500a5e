"""TensorRT-RTX: real engines, ahead of time, on any x86-64 Linux machine; runs them on an RTX GPU.

Precision is a property of the model file; there is no flag for it. Importing this imports the
runtime: only ``registry.open_backend`` does, in a child process.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from enginefarm.errors import JobFailed
from enginefarm.finding import Finding, error_finding
from enginefarm.state import Blame
from enginefarm.target import BACKEND_ARCHITECTURES, Target
from tasks.messages import BackendDescription, Device
from workers.backends.base import Compiled, ModelSource, ProgressSink, Runner
from workers.backends.trt import header, parsing, profiles, progress, recording
from workers.diagnosis import Runtime, failure_of, shorten

LABEL = "TensorRT-RTX"
MIB = 1 << 20


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
    engine_file = "model.plan"

    def __init__(self, trt: ModuleType, *, has_gpu: bool | None = None) -> None:
        """Keep one logger for the process: the runtime ignores a second."""
        self._trt = trt
        self._record = recording.Record(has_gpu=_gpu_visible() if has_gpu is None else has_gpu)
        self._logger = recording.make_logger(trt, self._record)

    def describe(self, devices: Sequence[Device]) -> BackendDescription:
        """Builds for every architecture it can generate code for; runs none of them (`load`)."""
        del devices  # a GPU here adds nothing until engines are run, too
        if self._trt.Builder(self._logger) is None:
            message = "no builder could be opened"
            raise RuntimeError(message)
        builds = [arch for arch in BACKEND_ARCHITECTURES[self.name] if self._capability(arch)]
        return BackendDescription(
            name=self.name,
            version=self.version,
            builds=builds,
            # An engine is measured where its architecture is; see `load`.
            measures=[],
        )

    @property
    def version(self) -> str:
        """The full version, build number included."""
        return str(self._trt.__version__)

    def versions(self) -> dict[str, str]:
        """The runtime; the CUDA it is for is part of its distribution's name."""
        return {self.name: self.version, "onnx": importlib.metadata.version("onnx")}

    def check(self, source: ModelSource) -> list[Finding]:
        """Ask the parser for all it dislikes, and which inputs it takes for sizes."""
        builder = self._trt.Builder(self._logger)
        network = parsing.make_network(self._trt, builder)
        parser = self._trt.OnnxParser(network, self._logger)
        if not parsing.supported(parser, source.path):
            return parsing.complaints(parser, LABEL, self._record) or [_mute_refusal()]
        del parser, network
        network = parsing.make_network(self._trt, builder)
        parser = self._trt.OnnxParser(network, self._logger)
        if not parser.parse_from_file(str(source.path)):
            return parsing.complaints(parser, LABEL, self._record) or [_mute_refusal()]
        return profiles.value_inputs(network)

    def compile(self, source: ModelSource, out: Path, progress_sink: ProgressSink) -> Compiled:
        """Parse, build for one architecture, stream the engine to disk, read its header back."""
        trt, record = self._trt, self._record
        record.clear()
        builder = trt.Builder(self._logger)
        network = parsing.make_network(trt, builder)
        parser = trt.OnnxParser(network, self._logger)
        if not parser.parse_from_file(str(source.path)):
            said = [parser.get_error(i).desc() for i in range(parser.num_errors)]
            raise _refused([record.heard(text) for text in said], source)
        recorder = recording.make_recorder(trt, record)
        builder.error_recorder = recorder  # only now: a recorder before parsing crashes teardown
        config = self._configure(builder, source, progress_sink)
        target = out / self.engine_file
        part = target.with_suffix(".part")
        troubles: list[OSError] = []
        with part.open("wb") as stream:
            writer = _make_writer(trt, stream, troubles)
            done = builder.build_serialized_network_to_stream(network, config, writer)
        if troubles:
            raise troubles[0]  # the runtime keeps it to itself, and may say that all is well
        if progress_sink.stopping:
            raise JobFailed("The build was stopped.", blame=Blame.NODE, code="cancelled")
        if not done:
            raise _refused(record.errors, source)
        fault = header.header_fault(part, self.name, self.version)
        if fault is not None:
            raise JobFailed(
                "The engine that was written cannot be right.",
                blame=Blame.NODE,
                code="engine_malformed",
                why=f"Its header says so: {fault}.",
                fix="Try again; if it stays, look at the node's disk and the runtime's version.",
            )
        part.replace(target)
        progress_sink.report(1.0, "written")
        return Compiled(target, [shorten(recording.plain(text)) for text in record.warnings])

    def load(self, engine: Path, target: Target, threads: int) -> Runner:
        """Refuse: engines are built here, but nothing here runs them yet."""
        raise JobFailed(
            f"{engine.name} for {target} cannot be measured on this node.",
            blame=Blame.NODE,
            code="not_measurable_here",
            why=f"This node builds {LABEL} engines and runs none ({threads} threads asked).",
            fix=f"Start a node with a {target.arch} GPU.",
        )

    def _capability(self, arch: str) -> Any:  # noqa: ANN401 - the runtime's enum
        return getattr(self._trt.ComputeCapability, arch.replace("sm_", "SM"), None)

    def _configure(self, builder: Any, source: ModelSource, sink: ProgressSink) -> Any:  # noqa: ANN401 - the runtime's classes
        trt, options = self._trt, source.options
        capability = self._capability(source.target.arch)
        if capability is None:
            raise JobFailed(
                f"{LABEL} {self.version} cannot build for {source.target.arch}.",
                blame=Blame.NODE,
                code="unsupported_architecture",
            )
        config = builder.create_builder_config()
        config.num_compute_capabilities = 1
        if not config.set_compute_capability(capability, 0):
            raise _refused(self._record.errors, source)
        if options.optimization_level is not None:
            config.builder_optimization_level = options.optimization_level
        if options.workspace_mib is not None:
            pool = trt.MemoryPoolType.WORKSPACE
            config.set_memory_pool_limit(pool, options.workspace_mib * MIB)
        profiles.apply(builder, config, source.profiles)
        config.progress_monitor = progress.make_monitor(trt, sink)
        return config


def _make_writer(trt: ModuleType, stream: BinaryIO, troubles: list[OSError]) -> Any:  # noqa: ANN401 - the runtime's class
    class Writer(trt.IStreamWriter):  # type: ignore[name-defined,misc]  # a class of a module handed over
        def __init__(self) -> None:
            trt.IStreamWriter.__init__(self)

        def write(self, data: bytes) -> int:
            try:
                return stream.write(data)
            except OSError as error:
                troubles.append(error)
                return 0

    return Writer()


def _refused(texts: list[str], source: ModelSource) -> JobFailed:
    return failure_of(
        [recording.plain(text) for text in texts],
        Runtime.TENSORRT,
        code="build_refused",
        message=f"{LABEL} did not build the model for {source.target.arch}.",
    )


def _mute_refusal() -> Finding:
    return error_finding(
        "parser_refused",
        f"{LABEL} does not take the model and gives no reason.",
        fix="Read the job's log; try another backend.",
    )


def _gpu_visible() -> bool:
    return Path("/dev/nvidiactl").exists()
