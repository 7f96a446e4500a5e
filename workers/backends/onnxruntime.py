"""ONNX Runtime: the graph-optimised model, for the CPU or, where its CUDA provider loads, a GPU.

The default rewrites the graph as far as the result still runs on any machine of the target
(``extended``); ``all`` also lays data out for the builder's own processor, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import onnxruntime as ort

from enginefarm.errors import JobFailed
from enginefarm.finding import Finding, at_nodes, error_finding
from enginefarm.spec import GraphOptimization
from enginefarm.state import Blame
from enginefarm.target import BACKEND_ARCHITECTURES, Target
from tasks.messages import BackendDescription, Device
from workers.backends import graph, ort_provider
from workers.backends.base import Compiled, ModelSource, ProgressSink
from workers.backends.loaded import Loaded, failed_with_plugins, refused, with_plugins
from workers.backends.ort_session import (
    CUDA,
    LEVELS,
    SessionRunner,
    libraries,
    open_session,
    runner_of,
    session_options,
    take_library,
)
from workers.diagnosis import Runtime, diagnose, failure_of, refuse_node_fault, shorten

_PLACE = re.compile(
    r"(?:implementation for|kernel for) (?P<op>\w+)\(\d+\)"
    r"(?:.*?(?:with name |node:)'(?P<node>[^']*)')?"
    r"|Fatal error: [\w.]*:?(?P<unknown>\w+)\(-?\d+\) is not a registered"
)
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
        """Builds for and measures on the CPU, and GPUs here if the CUDA provider loads."""
        known = set(BACKEND_ARCHITECTURES[self.name]) - {"cpu"}
        unused = ort_provider.gpus_unused([row for row in devices if row.arch in known])
        archs = ["cpu", *sorted(known & {row.arch for row in devices if unused is None})]
        return BackendDescription(
            name=self.name,
            version=ort.__version__,
            builds=archs,
            measures=list(archs),
            on_device=archs[1:],
            gpus_unused=unused,
        )

    def versions(self) -> dict[str, str]:
        """The runtime itself."""
        return {self.name: ort.__version__}

    def check(self, source: ModelSource) -> list[Finding]:
        """Open the model as it is."""
        options = session_options(0)
        options.graph_optimization_level = LEVELS[GraphOptimization.NONE]
        try:
            open_session(source.path, source.target, options)
        except JobFailed:
            raise
        except Exception as error:  # noqa: BLE001 - the binding raises a class for each status
            said = graph.without_folder(str(error), source.path)
            refuse_node_fault(said, Runtime.ONNXRUNTIME, source.target)
            return [with_plugins(_finding(said), _loaded())]
        return []

    def compile(self, source: ModelSource, out: Path, progress: ProgressSink) -> Compiled:
        """Let the runtime rewrite the graph and write what it would run."""
        level = source.options.graph_optimization or GraphOptimization.EXTENDED
        target = out / self.engine_file
        part = target.with_suffix(".part")
        options = session_options(0)
        options.graph_optimization_level = LEVELS[level]
        options.optimized_model_filepath = str(part)
        progress.report(None, f"rewriting the graph ({level})")
        try:
            open_session(source.path, source.target, options)
        except JobFailed:
            raise
        except Exception as error:
            _require_room(part)
            failed = failure_of(
                [str(error)],
                Runtime.ONNXRUNTIME,
                code="build_refused",
                message=f"ONNX Runtime did not build the model for {source.target.arch}.",
            )
            raise failed_with_plugins(failed, _loaded()) from error
        if progress.stopping:
            raise JobFailed("The build was stopped.", blame=Blame.NODE, code="cancelled")
        _make_whole(part, source.path)
        part.replace(target)
        progress.report(1.0, "written")
        return Compiled(target, [ONLY_HERE] if level is GraphOptimization.ALL else [])

    def take_plugin(self, library: Path) -> list[str] | None:
        """Let every session of this process know a library's operators; which, it does not tell.

        Raises:
            JobFailed: it does not load (code ``plugin_refused``).
        """
        try:
            take_library(library)
        except Exception as error:
            said = graph.without_folder(str(error), library)
            raise refused(self.name, library, shorten(said, 300)) from error
        return None

    def load(self, engine: Path, target: Target, threads: int, *_: object) -> SessionRunner:
        """Open an engine with the options a deployer gets by default."""
        options = session_options(threads)
        try:
            session = open_session(engine, target, options)
            return runner_of(session, options.intra_op_num_threads, engine, target)
        except JobFailed:
            raise
        except Exception as error:
            failed = failure_of(
                [str(error)],
                Runtime.ONNXRUNTIME,
                code="engine_load_failed",
                message="ONNX Runtime does not load the engine.",
            )
            raise failed_with_plugins(failed, _loaded()) from error


def _loaded() -> list[Loaded]:
    return [Loaded(library) for library in libraries()]


def _require_room(part: Path) -> None:
    """See whether the disk takes more: the runtime speaks of a full one as of a bad model.

    Raises:
        OSError: it does not.
    """
    with part.open("ab") as stream:
        stream.write(bytes(1 << 20))


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
