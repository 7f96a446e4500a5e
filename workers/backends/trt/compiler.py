"""Check a model and build an engine: one sequence of calls for TensorRT and TensorRT-RTX.

What differs is handed over: which runtime it is, and how a config is aimed at a target. Precision
is a property of the model file; there is no option for it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from enginefarm.errors import JobFailed
from enginefarm.finding import Finding, error_finding
from enginefarm.state import Blame
from enginefarm.target import Target
from workers.backends.base import Compiled, ModelSource, ProgressSink
from workers.backends.loaded import Loaded, failed_with_plugins, with_plugins
from workers.backends.trt import (
    header,
    inspection,
    options,
    parsing,
    plugins,
    profiles,
    progress,
    recording,
    timing,
)
from workers.diagnosis import Runtime, failure_of, shorten
from workers.settings import gpus_hidden
from workers.timing import ChildTiming

ENGINE_FILE, LAYERS_FILE = "model.plan", "layers.json"
Aim = Callable[[Any], bool]
"""Sets on a config what it is to build for; False if the runtime refuses."""


class Compiler:
    """One of the two runtimes, imported, with the one logger that a process may have."""

    def __init__(self, trt: ModuleType, kind: str, label: str, *, has_gpu: bool) -> None:
        """Keep one logger for the process: the runtime ignores a second."""
        self.trt, self.kind, self.label = trt, kind, label
        self.record = recording.Record(has_gpu=has_gpu)
        self.logger = recording.make_logger(trt, self.record)
        self.plugins: list[Loaded] = []

    @property
    def version(self) -> str:
        """The full version, build number included."""
        return str(self.trt.__version__)

    def require_builder(self) -> None:
        """Open a builder, which shows that the runtime's libraries really load.

        Raises:
            RuntimeError: it does not.
        """
        if self.trt.Builder(self.logger) is None:
            message = "no builder could be opened"
            raise RuntimeError(message)

    def take_plugin(self, library: Path) -> list[str] | None:
        """Load a library before anything is parsed or opened; return the operators that it adds.

        Raises:
            JobFailed: it does not load (code ``plugin_refused``).
        """
        builder = self.trt.Builder(self.logger)  # while it lives the registry has its logger
        taken = plugins.load(self.trt, self.label, self.record, library)
        del builder
        self.plugins.append(taken)
        return None if taken.operators is None else list(taken.operators)

    def check(self, source: ModelSource) -> list[Finding]:
        """Ask the parser for all it dislikes, and which inputs it takes for sizes."""
        builder = self.trt.Builder(self.logger)
        network = parsing.make_network(self.trt, builder)
        parser = self.trt.OnnxParser(network, self.logger)
        if not parsing.supported(parser, source.path):
            return self._complaints(parser) or [self._mute_refusal()]
        del parser, network
        network = parsing.make_network(self.trt, builder)
        parser = self.trt.OnnxParser(network, self.logger)
        if not parser.parse_from_file(str(source.path)):
            return self._complaints(parser) or [self._mute_refusal()]
        return profiles.value_inputs(network)

    def _complaints(self, parser: Any) -> list[Finding]:  # noqa: ANN401 - the runtime's class
        found = parsing.complaints(parser, self.label, self.record)
        return [with_plugins(row, self.plugins) for row in found]

    def compile(self, source: ModelSource, out: Path, sink: ProgressSink, aim: Aim) -> Compiled:
        """Parse, build, stream the engine to disk, read its header back, look into it.

        Raises:
            JobFailed: the runtime refused, was cancelled or broke.
        """
        self.record.clear()
        builder = self.trt.Builder(self.logger)
        network, parser = self._parsed(builder, source)
        recorder = recording.make_recorder(self.trt, self.record)
        builder.error_recorder = recorder  # only now: a recorder before parsing crashes teardown
        config = self._configure(builder, source, sink, aim)
        self._carry(config, parser, source)
        timed = self._timed(source, config)
        part = (out / ENGINE_FILE).with_suffix(".part")
        done = self._write(builder, network, config, part)
        del parser  # it had to outlive the build: the network's weights may be its own
        if sink.stopping:
            raise JobFailed("The build was stopped.", blame=Blame.NODE, code="cancelled")
        if not done and timed is not None:
            timed.require_hit()
        if not done:
            raise self._refused(self.record.errors, source)
        self._require_header(part, source)
        left = timed.left(config) if timed is not None else None
        del config  # with it goes its timing cache, and the log then says how often it served
        if left is not None:
            left = left.model_copy(update={"hits": self.record.timing_hits})
        sink.report(1.0, "written")
        return self._compiled(part.replace(out / ENGINE_FILE), source, left)

    def _compiled(self, plan: Path, source: ModelSource, left: ChildTiming | None) -> Compiled:
        told = inspection.inspect(self.trt, self.logger, plan, source.options, self.record)
        return Compiled(
            path=plan,
            warnings=[shorten(recording.plain(text)) for text in self.record.warnings],
            layers=inspected(told, plan.parent),
            device_memory_bytes=told.device_memory_bytes,
            inspection_reason=told.reason,
            timing=left,
        )

    def _parsed(self, builder: Any, source: ModelSource) -> tuple[Any, Any]:  # noqa: ANN401 - the runtime's classes
        network = parsing.make_network(self.trt, builder)
        parser = self.trt.OnnxParser(network, self.logger)
        if not parser.parse_from_file(str(source.path)):
            said = [parser.get_error(i).desc() for i in range(parser.num_errors)]
            raise self._refused([self.record.heard(text) for text in said], source)
        return network, parser

    def _timed(self, source: ModelSource, config: Any) -> timing.BuildTiming | None:  # noqa: ANN401 - the runtime's class
        if source.timing is None:
            timing.require_none_asked(source.options)
            return None
        timed = timing.BuildTiming(self.trt, self.record, source.timing)
        timed.attach(config)
        return timed

    def _configure(self, builder: Any, source: ModelSource, sink: ProgressSink, aim: Aim) -> Any:  # noqa: ANN401 - the runtime's classes
        config = builder.create_builder_config()
        if not aim(config):
            raise self._refused(self.record.errors, source)
        said_before = len(self.record.errors)
        unheard = options.apply(self.trt, config, source.options)
        said = [recording.plain(text) for text in self.record.errors[said_before:]]
        if unheard or said:
            raise self._option_refused(unheard, said)
        profiles.apply(builder, config, source.profiles)
        config.progress_monitor = progress.make_monitor(self.trt, sink)
        return config

    def _carry(self, config: Any, parser: Any, source: ModelSource) -> None:  # noqa: ANN401 - the runtime's classes
        """Have the engine carry the libraries that it is to bring to whoever runs it."""
        if source.options.serialize_plugins and not self.plugins:
            raise self._option_refused(["serialize_plugins"], [])
        wanted = plugins.carried(source.options, self.plugins, parser)
        if not wanted:
            return
        config.plugins_to_serialize = wanted
        if list(config.plugins_to_serialize) != wanted:
            raise self._option_refused(["serialize_plugins"], [])

    def _write(self, builder: Any, network: Any, config: Any, part: Path) -> bool:  # noqa: ANN401 - the runtime's classes
        troubles: list[OSError] = []
        with part.open("wb") as stream:
            writer = _make_writer(self.trt, stream, troubles)
            done = builder.build_serialized_network_to_stream(network, config, writer)
        if troubles:
            raise troubles[0]  # the runtime keeps it to itself, and may say that all is well
        return bool(done)

    def _require_header(self, part: Path, source: ModelSource) -> None:
        fault = header.header_fault(part, self.kind, self.version, source.target.archs)
        if fault is not None:
            raise JobFailed(
                "The engine that was written cannot be right.",
                blame=Blame.NODE,
                code="engine_malformed",
                why=f"Its header says so: {fault}.",
                fix="Try again; if it stays, look at the node's disk and the runtime's version.",
            )

    def _option_refused(self, unheard: list[str], said: list[str]) -> JobFailed:
        named = ", ".join(f"options.compile.{name}" for name in unheard)
        return JobFailed(
            f"{self.label} {self.version} does not take {named or 'the compile options'}.",
            blame=Blame.PERSON,
            code="option_refused",
            why=f"It says: {shorten(' '.join(said), 300)}" if said else "It kept its own value.",
            fix="Leave the option out, or give a value that this version takes.",
        )

    def _refused(self, texts: list[str], source: ModelSource) -> JobFailed:
        archs = " and ".join(source.target.archs)
        failed = failure_of(
            [recording.plain(text) for text in texts],
            Runtime.TENSORRT,
            code="build_refused",
            message=f"{self.label} did not build the model for {archs}.",
        )
        return failed_with_plugins(failed, self.plugins)

    def _mute_refusal(self) -> Finding:
        return error_finding(
            "parser_refused",
            f"{self.label} does not take the model and gives no reason.",
            fix="Read the job's log; try another backend.",
        )

    def not_measurable(self, engine: Path, target: Target, why: str) -> JobFailed:
        """Return the refusal to run an engine where it cannot be run."""
        return JobFailed(
            f"{engine.name} for {target} cannot be measured on this node.",
            blame=Blame.NODE,
            code="not_measurable_here",
            why=f"{why}.",
            fix=f"Start a node with a {' or '.join(target.archs)} GPU.",
        )


def inspected(told: inspection.Inspection, out: Path) -> Path | None:
    """Write what an engine tells of its layers beside it, if it told something."""
    if told.layers is None:
        return None
    path = out / LAYERS_FILE
    path.write_text(told.layers, encoding="utf-8")
    return path


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


def gpu_visible() -> bool:
    """Tell whether the host has an NVIDIA driver, and this process is to see a GPU."""
    return Path("/dev/nvidiactl").exists() and not gpus_hidden()
