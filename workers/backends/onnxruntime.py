"""ONNX Runtime: the graph-optimised model, for the CPU or, where its CUDA provider loads, a GPU.

The default rewrites the graph as far as the result still runs on any machine of the target
(``extended``); ``all`` also lays data out for the builder's own processor, and says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import onnxruntime as ort

from enginefarm.errors import JobFailed
from enginefarm.finding import Finding, at_nodes, error_finding
from enginefarm.spec import GraphOptimization
from enginefarm.state import Blame
from enginefarm.target import BACKEND_ARCHITECTURES, Target
from enginefarm.views import TensorView
from tasks.messages import BackendDescription, Device
from workers.backends import graph
from workers.backends.base import (
    Array,
    Compiled,
    DeviceRunner,
    ModelSource,
    NotOnDevice,
    ProgressSink,
)
from workers.diagnosis import Runtime, diagnose, failure_of, refuse_node_fault, shorten

LEVELS = {
    GraphOptimization.NONE: ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    GraphOptimization.BASIC: ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    GraphOptimization.EXTENDED: ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    GraphOptimization.ALL: ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
_PLACE = re.compile(
    r"(?:implementation for|kernel for) (?P<op>\w+)\(\d+\)"
    r"(?:.*?(?:with name |node:)'(?P<node>[^']*)')?"
    r"|Fatal error: [\w.]*:?(?P<unknown>\w+)\(-?\d+\) is not a registered"
)
CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
ONLY_HERE = (
    "graph_optimization 'all' lays data out for the processor of the node that built it;"
    " on another kind of processor build with 'extended'"
)


def open_backend() -> OnnxRuntime:
    """Return the backend, its runtime imported and, where it is built for GPUs, CUDA's libraries.

    Without them loaded the CUDA provider opens no session unless the machine's own loader finds
    them; where none are, it still does not, and says so.
    """
    if CUDA in ort.get_available_providers():
        ort.preload_dlls()
    return OnnxRuntime()


class OnnxRuntime:
    """See :class:`workers.backends.base.Backend`."""

    name = "onnxruntime"
    engine_file = "model.onnx"

    def describe(self, devices: Sequence[Device]) -> BackendDescription:
        """Builds for and measures on the CPU, and GPUs here if the CUDA provider is built in."""
        archs = ["cpu"]
        if CUDA in ort.get_available_providers():
            known = BACKEND_ARCHITECTURES[self.name]
            archs += sorted({d.arch for d in devices if d.arch in known and d.arch != "cpu"})
        return BackendDescription(
            name=self.name,
            version=ort.__version__,
            builds=archs,
            measures=list(archs),
            on_device=archs[1:],
        )

    def versions(self) -> dict[str, str]:
        """The runtime itself."""
        return {self.name: ort.__version__}

    def check(self, source: ModelSource) -> list[Finding]:
        """Open the model as it is."""
        options = _session_options(0)
        options.graph_optimization_level = LEVELS[GraphOptimization.NONE]
        try:
            _open(source.path, source.target, options)
        except JobFailed:
            raise
        except Exception as error:  # noqa: BLE001 - the binding raises a class for each status
            said = graph.without_folder(str(error), source.path)
            refuse_node_fault(said, Runtime.ONNXRUNTIME, source.target)
            return [_finding(said)]
        return []

    def compile(self, source: ModelSource, out: Path, progress: ProgressSink) -> Compiled:
        """Let the runtime rewrite the graph and write what it would run."""
        level = source.options.graph_optimization or GraphOptimization.EXTENDED
        target = out / self.engine_file
        part = target.with_suffix(".part")
        options = _session_options(0)
        options.graph_optimization_level = LEVELS[level]
        options.optimized_model_filepath = str(part)
        progress.report(None, f"rewriting the graph ({level})")
        try:
            _open(source.path, source.target, options)
        except JobFailed:
            raise
        except Exception as error:
            _require_room(part)
            raise failure_of(
                [str(error)],
                Runtime.ONNXRUNTIME,
                code="build_refused",
                message=f"ONNX Runtime did not build the model for {source.target.arch}.",
            ) from error
        if progress.stopping:
            raise JobFailed("The build was stopped.", blame=Blame.NODE, code="cancelled")
        _make_whole(part, source.path)
        part.replace(target)
        progress.report(1.0, "written")
        return Compiled(target, [ONLY_HERE] if level is GraphOptimization.ALL else [])

    def load(self, engine: Path, target: Target, threads: int, *_: object) -> SessionRunner:
        """Open an engine with the options a deployer gets by default."""
        options = _session_options(threads)
        try:
            session = _open(engine, target, options)
            return _runner(session, options.intra_op_num_threads, engine, target)
        except JobFailed:
            raise
        except Exception as error:
            raise failure_of(
                [str(error)],
                Runtime.ONNXRUNTIME,
                code="engine_load_failed",
                message="ONNX Runtime does not load the engine.",
            ) from error


def _require_room(part: Path) -> None:
    """See whether the disk takes more: the runtime speaks of a full one as of a bad model.

    Raises:
        OSError: it does not.
    """
    with part.open("ab") as stream:
        stream.write(bytes(1 << 20))


class SessionRunner:
    """See :class:`workers.backends.base.Runner`."""

    def __init__(self, session: ort.InferenceSession, threads: int) -> None:
        """Keep the session and the names of its inputs and outputs."""
        self._session = session
        self.threads = threads
        self.inputs = [_view(value) for value in session.get_inputs()]
        self.outputs = [_view(value) for value in session.get_outputs()]

    def run(self, feeds: Mapping[str, Array]) -> list[Array | None]:
        """Run once; sequences and maps have no array form and come back as None."""
        found = self._session.run(None, dict(feeds))
        return [value if hasattr(value, "dtype") else None for value in found]

    def bound(self, feeds: Mapping[str, Array]) -> Callable[[], object]:
        """Bind inputs and outputs in the host's memory; a session takes several threads at once."""
        binding = self._session.io_binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        for view in self.outputs:
            binding.bind_output(view.name)
        return lambda: self._session.run_with_iobinding(binding)


class GpuSessionRunner(SessionRunner):
    """Also runs with its inputs and outputs on the GPU: :class:`base.RunsOnDevice`."""

    def __init__(
        self, session: ort.InferenceSession, threads: int, engine: Path, target: Target
    ) -> None:
        """Remember what to open again: a stream is given to a session when it is opened."""
        super().__init__(session, threads)
        self._engine, self._target = engine, target

    def on_device(self, feeds: Mapping[str, Array], *, cuda_graph: bool) -> DeviceRunner:
        """Open the engine once more, with its data on the device."""
        from workers.backends.ort_device import OrtDeviceRunner

        names = [view.name for view in self.outputs]
        outputs = dict(zip(names, self.run(feeds), strict=True))
        try:
            return OrtDeviceRunner(self._open_with, feeds, outputs, cuda_graph=cuda_graph)
        except NotOnDevice as error:
            refuse_node_fault(str(error), Runtime.ONNXRUNTIME, self._target)
            raise

    def _open_with(self, told: dict[str, str]) -> ort.InferenceSession:
        options = _session_options(self.threads)
        try:
            return _open(self._engine, self._target, options, told)
        except Exception as error:
            raise NotOnDevice(shorten(str(error), 300)) from error


def _runner(
    session: ort.InferenceSession, threads: int, engine: Path, target: Target
) -> SessionRunner:
    if target.arch == "cpu":
        return SessionRunner(session, threads)
    return GpuSessionRunner(session, threads, engine, target)


def open_reference(model: Path) -> SessionRunner:
    """Open the original model on the CPU as it was written: no rewriting at all."""
    options = _session_options(0)
    options.graph_optimization_level = LEVELS[GraphOptimization.NONE]
    options.log_severity_level = 3  # a wrongly declared output would be told at every sample
    target = Target(backend="onnxruntime", arch="cpu")
    return SessionRunner(_open(model, target, options), options.intra_op_num_threads)


def _session_options(threads: int) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads or len(os.sched_getaffinity(0))
    options.inter_op_num_threads = 1
    return options


def _open(
    path: Path,
    target: Target,
    options: ort.SessionOptions,
    cuda: Mapping[str, str] = MappingProxyType({}),
) -> ort.InferenceSession:
    wanted = [CPU] if target.arch == "cpu" else [CUDA, CPU]
    told = [dict(cuda) if name == CUDA else {} for name in wanted]
    # A GPU that is full must be a failure that says so, not a session on the CPU.
    session = ort.InferenceSession(
        str(path), options, providers=wanted, provider_options=told, enable_fallback=0
    )
    if session.get_providers()[0] != wanted[0]:
        raise JobFailed(
            f"ONNX Runtime does not run on {target.arch} here.",
            blame=Blame.NODE,
            code="provider_missing",
            why=f"{wanted[0]} did not load, and a fallback to the CPU would be a lie.",
            fix="Install the onnxruntime that matches the node's CUDA.",
        )
    return session


def _make_whole(written: Path, original: Path) -> None:
    """Let the engine stand alone, with the original's interface.

    What it refers to outside itself stays behind on the node that built it.
    """
    folder = original.parent
    if graph.has_external_data(written) and not graph.take_in_data(written, folder):
        raise JobFailed(
            "The model is too large for ONNX Runtime's engine file.",
            blame=Blame.PERSON,
            code="model_too_large",
            why="One ONNX file holds at most 2 GiB, weights included.",
            fix="Choose another backend for this model.",
        )
    difference = graph.keep_interface(written, original)
    if difference is not None:
        raise JobFailed(
            "The engine's inputs and outputs are not the model's.",
            blame=Blame.NODE,
            code="engine_interface_differs",
            why=f"It has {difference}.",
            fix="Build with a lower graph_optimization.",
        )


def _view(value: ort.NodeArg) -> TensorView:
    dtype = value.type.removeprefix("tensor(").removesuffix(")")
    return TensorView(name=value.name, dtype=dtype, shape=list(value.shape))


def _finding(text: str) -> Finding:
    row = diagnose(text, Runtime.ONNXRUNTIME)
    found = error_finding(
        row.code if row else "runtime_refused",
        f"ONNX Runtime refuses the model. It says: {shorten(text, 300)}",
        fix=row.fix if row else "Try the model in ONNX Runtime by itself.",
    )
    place = _PLACE.search(text)
    if place is None:
        return found
    node = place["node"]
    return at_nodes(found, [node] if node else [], place["op"] or place["unknown"] or "")
