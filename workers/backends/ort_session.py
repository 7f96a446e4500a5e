"""Sessions of ONNX Runtime: with which options and providers they are opened, and how they run.

Custom-operator libraries belong to a session's options. Those that a process has been given are in
the options of every session that it opens, whatever for; no other code makes options.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import onnxruntime as ort
from onnx import TensorProto, helper

from enginefarm.errors import JobFailed
from enginefarm.spec import GraphOptimization
from enginefarm.state import Blame
from enginefarm.target import Target
from enginefarm.views import TensorView
from workers.backends.base import Array, DeviceRunner, NotOnDevice
from workers.diagnosis import Runtime, refuse_node_fault, shorten

LEVELS = {
    GraphOptimization.NONE: ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    GraphOptimization.BASIC: ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    GraphOptimization.EXTENDED: ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    GraphOptimization.ALL: ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
_SILENT = 4
_libraries: list[Path] = []


def take_library(library: Path) -> None:
    """Have every session that this process opens from now on know a library's operators.

    Raises:
        Exception: it does not load, or not beside those that were taken before; the binding
            raises a class for each status.
    """
    options = ort.SessionOptions()
    options.log_severity_level = _SILENT
    for each in (*_libraries, library):
        options.register_custom_ops_library(str(each))
    # Two libraries that have one operator show only when a session is opened.
    ort.InferenceSession(_smallest(), options, providers=[CPU])
    _libraries.append(library)


def libraries() -> Sequence[Path]:
    """Return those that have been taken, in their order."""
    return tuple(_libraries)


def forget_libraries() -> None:
    """Open sessions without any from now on: for one process that tries several jobs."""
    _libraries.clear()


def new_options() -> ort.SessionOptions:
    """Return the runtime's own default options, with every library that was taken."""
    options = ort.SessionOptions()
    for library in _libraries:
        options.register_custom_ops_library(str(library))
    return options


def session_options(threads: int) -> ort.SessionOptions:
    """Return options for so many threads; 0 means one for each core that is available."""
    options = new_options()
    options.intra_op_num_threads = threads or len(os.sched_getaffinity(0))
    options.inter_op_num_threads = 1
    return options


def as_written() -> ort.SessionOptions:
    """Return options with which the graph is run as it is written."""
    options = new_options()
    options.graph_optimization_level = LEVELS[GraphOptimization.NONE]
    return options


def opened_as_written(model: Path) -> ort.InferenceSession:
    """Open a model on the CPU for a tool that runs it itself.

    Raises:
        Exception: the runtime does not take it; it raises a class for each status.
    """
    return ort.InferenceSession(str(model), as_written(), providers=[CPU])


def open_session(
    path: Path,
    target: Target,
    options: ort.SessionOptions,
    cuda: Mapping[str, str] = MappingProxyType({}),
) -> ort.InferenceSession:
    """Open a model on a target's device, never on another; ``cuda``: what its provider is told.

    Raises:
        JobFailed: the target's provider did not load (code ``provider_missing``).
        Exception: the runtime does not take the model; it raises a class for each status.
    """
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
        options = session_options(self.threads)
        try:
            return open_session(self._engine, self._target, options, told)
        except Exception as error:
            raise NotOnDevice(shorten(str(error), 300)) from error


def runner_of(
    session: ort.InferenceSession, threads: int, engine: Path, target: Target
) -> SessionRunner:
    """Return what runs an engine's session on its target's device."""
    if target.arch == "cpu":
        return SessionRunner(session, threads)
    return GpuSessionRunner(session, threads, engine, target)


def open_reference(model: Path) -> SessionRunner:
    """Open the original model on the CPU as it was written: no rewriting at all."""
    options = session_options(0)
    options.graph_optimization_level = LEVELS[GraphOptimization.NONE]
    options.log_severity_level = 3  # a wrongly declared output would be told at every sample
    target = Target(backend="onnxruntime", arch="cpu")
    return SessionRunner(open_session(model, target, options), options.intra_op_num_threads)


def _view(value: ort.NodeArg) -> TensorView:
    dtype = value.type.removeprefix("tensor(").removesuffix(")")
    return TensorView(name=value.name, dtype=dtype, shape=list(value.shape))


def _smallest() -> bytes:
    """Return a model of one node of ONNX's own."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "one", [x], [y])
    opsets = [helper.make_opsetid("", 13)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return model
