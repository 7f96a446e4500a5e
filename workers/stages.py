"""What a child runs, stage by stage; a runtime is imported when one runs."""

from __future__ import annotations

import platform
import resource
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

from pydantic import TypeAdapter

from enginefarm.compile_options import TimingReuse
from enginefarm.errors import JobFailed
from enginefarm.finding import Finding, Severity
from enginefarm.manifest import CHECK_TYPE, ENGINE_TYPES, LAYERS_TYPE, RUNTIME_CACHE_TYPE
from enginefarm.report import CompileReport
from enginefarm.runtime_cache import file_name
from enginefarm.spec import CompileOptions, Profile
from enginefarm.state import PRECISION_STAGES, Blame, Stage
from workers import benchmark, comparing, timed, timing
from workers.alone import ALONE_FILE
from workers.backends.base import (
    Backend,
    Compiled,
    ModelSource,
    ProgressSink,
    TimesKernels,
    TimingGiven,
)
from workers.backends.registry import open_backend
from workers.childjob import ChildJob, ChildOutput, ChildResult, write_document
from workers.gpu.taken import Taken, taken
from workers.plugins import loading

PROFILES: TypeAdapter[list[Profile]] = TypeAdapter(list[Profile])
FINDINGS: TypeAdapter[list[Finding]] = TypeAdapter(list[Finding])
CHECK_FILE, CACHE_FILE = "check.json", "runtime.cache"


def run(job: ChildJob, sink: ProgressSink) -> ChildResult:
    """Run the job's stage on its backend, with the GPU it needs, which this process then keeps."""
    with taken(job.device, sink) as device:
        result = _run(job, sink, device)
    uuid = None if device is None else device.gpu.uuid
    return result.model_copy(update={"device_uuid": uuid})


def _run(job: ChildJob, sink: ProgressSink, device: Taken | None) -> ChildResult:
    sink.report(None, "loading the runtime")
    if job.stage in PRECISION_STAGES:
        # Its tool is in the key, and not the target's backend, which this node may not have.
        _load_plugins(job, None)
        return change_precision(job, sink)
    backend = _open(job)
    _load_plugins(job, backend)
    if job.merges:
        return merge_timings(job, backend)
    stages: dict[Stage, Callable[[ChildJob, Backend, ProgressSink], ChildResult]] = {
        Stage.REPAIR: repair_model,
        Stage.CHECK: check,
        Stage.COMPILE: partial(compile_model, device=device),
        Stage.BENCHMARK: partial(benchmark_engine, device=device),
    }
    if job.stage not in stages:
        raise JobFailed(
            f"A node does not run the stage {job.stage}.", blame=Blame.NODE, code="stage_unknown"
        )
    return stages[job.stage](job, backend, sink)


def _load_plugins(job: ChildJob, backend: Backend | None) -> None:
    """Load each library into what it is for: the target's backend, and what runs the model."""
    for name, libraries in job.plugins.items():
        its_own = backend if backend is not None and backend.name == name else _import(name)
        loading.load(its_own, libraries)
    if job.plugins:
        print(f"plugins loaded: {loading.names_of(job.plugins)}", flush=True)  # noqa: T201 - stdout is the job's log


def _import(name: str) -> Backend:
    try:
        return open_backend(name)
    except ImportError as error:
        raise JobFailed(
            f"The backend {name} does not load on this node.",
            blame=Blame.NODE,
            code="backend_missing",
            why=str(error),
            fix="Install its packages on the node and start the node again.",
        ) from error


def _open(job: ChildJob) -> Backend:
    backend = _import(job.target.backend)
    here, wanted = backend.describe([]).version, job.recipe["backend_version"]
    if here != wanted:
        raise JobFailed(
            f"This node has {job.target.backend} {here}; the job asks for {wanted}.",
            blame=Blame.NODE,
            code="backend_version_differs",
            why="A job's key names the version, so another must not answer for it.",
            fix="Start the node again, so that it tells the farm what it has.",
        )
    return backend


def source_of(job: ChildJob) -> ModelSource:
    """Return the model of a job with its profiles and compile options."""
    model = job.one("model")
    if model is None:
        raise JobFailed("The job came without its model.", blame=Blame.FARM, code="input_missing")
    measures = job.stage is Stage.BENCHMARK
    given = job.recipe.get("built_with" if measures else "options") or {}
    options = CompileOptions.model_validate(given)
    snapshot = job.one(timing.ROLE)
    reuse = options.timing_cache or TimingReuse.AUTO
    timed = TimingGiven(job.out.parent, snapshot.path if snapshot else None, reuse)
    return ModelSource(
        path=model.path,
        target=job.target,
        profiles=PROFILES.validate_python(job.recipe.get("profiles") or []),
        options=options,
        timing=timed if job.timed else None,
    )


def repair_model(job: ChildJob, backend: Backend, sink: ProgressSink) -> ChildResult:
    """Mend what is known to keep a backend from building a model, each change proven."""
    from workers.repair import stage

    del backend  # the key names its version; the passes do not ask it
    return stage.repair_model(job, sink)


def change_precision(job: ChildJob, sink: ProgressSink) -> ChildResult:
    """Write the model in another precision, and measure what it costs."""
    from workers.precision import stage

    return stage.change_precision(job, sink)


def check(job: ChildJob, backend: Backend, sink: ProgressSink) -> ChildResult:
    """Find all that is wrong with the model for the target; errors fail the job, once, together."""
    from workers.checking.whole import check_model

    plugins = bool(job.plugins.get(job.target.backend))
    found = check_model(source_of(job), backend, job.room, sink, plugins=plugins)
    rows: list[Any] = FINDINGS.dump_python(found, mode="json")
    written = job.out / CHECK_FILE
    written.write_bytes(FINDINGS.dump_json(found))
    sink.report(1.0, "checked")
    failure = None
    errors = [finding for finding in found if finding.severity is Severity.ERROR]
    if errors:
        failure = _refusal(job, errors, rows).as_failure()
    return ChildResult(
        outputs=[ChildOutput(role="check", name=CHECK_FILE, path=written, media_type=CHECK_TYPE)],
        facts={"findings": rows},
        failure=failure,
    )


def _refusal(job: ChildJob, errors: list[Finding], rows: list[Any]) -> JobFailed:
    first = errors[0]
    more = f" There are {len(errors)} errors in all." if len(errors) > 1 else ""
    where = f" At: {first.where}." if first.where else ""
    return JobFailed(
        f"The model cannot be built for {job.target}.",
        blame=Blame.PERSON,
        code=first.code,
        why=" ".join(part for part in (first.message, first.why) if part) + where + more,
        fix=first.fix,
        findings=rows,
    )


def compile_model(
    job: ChildJob, backend: Backend, sink: ProgressSink, device: Taken | None = None
) -> ChildResult:
    """Build the engine and say what it took."""
    began = time.monotonic()
    compiled = backend.compile(source_of(job), job.out, sink)
    left = timed.alone(job, compiled.timing, device)
    report = CompileReport(
        seconds=time.monotonic() - began,
        engine_bytes=compiled.path.stat().st_size,
        peak_memory_bytes=peak_memory_bytes(),
        warnings=compiled.warnings,
        device_memory_bytes=compiled.device_memory_bytes,
        inspection_reason=compiled.inspection_reason,
        timings=timed.told(job, left),
    )
    engine = ChildOutput(
        role="engine",
        name=compiled.path.name,
        path=compiled.path,
        media_type=ENGINE_TYPES[job.target.backend],
    )
    outputs = [engine, *_layers(compiled)]
    facts = {"compile": report.model_dump(mode="json"), "versions": versions(backend)}
    plain: dict[str, Any] = TypeAdapter(dict[str, Any]).validate_python(facts)
    return ChildResult(outputs=outputs, facts=plain, timing=left)


def merge_timings(job: ChildJob, backend: Backend) -> ChildResult:
    """Merge the timing cache of a build with the newest, which another build has left."""
    mine, theirs = job.one(timing.ROLE), job.one(timing.OTHER_ROLE)
    if mine is None or theirs is None or not isinstance(backend, TimesKernels):
        raise JobFailed("There is nothing to merge.", blame=Blame.NODE, code="input_missing")
    caches = backend.timing_caches()
    return ChildResult(timing=timing.merge_files(caches, mine.path, theirs.path, job.out.parent))


def _layers(compiled: Compiled) -> list[ChildOutput]:
    path = compiled.layers
    if path is None:
        return []
    return [ChildOutput(role="layers", name=path.name, path=path, media_type=LAYERS_TYPE)]


def benchmark_engine(
    job: ChildJob, backend: Backend, sink: ProgressSink, device: Taken | None
) -> ChildResult:
    """Measure the engine's latency, its accuracy against the original, its speed against a twin.

    Or, where two engines come, which of them is faster.
    """
    if "compare" in job.recipe:
        told = comparing.compare_engines(job, backend, sink, device)
        return ChildResult(facts=told | {"versions": versions(backend)})
    source, engine, dataset = source_of(job), job.one("engine"), job.one("dataset")
    twin = job.one("twin")
    if engine is None:
        raise JobFailed("The job came without its engine.", blame=Blame.FARM, code="input_missing")
    request = benchmark.Request.of(
        job.recipe,
        source,
        engine.path,
        dataset.path if dataset else None,
        twin.path if twin else None,
        job.out / CACHE_FILE,
    )
    told = versions(backend)

    def keep(facts: dict[str, Any]) -> None:
        uuid = None if device is None else device.gpu.uuid
        kept = ChildResult(facts=facts | {"versions": told}, device_uuid=uuid)
        write_document(job.out.parent / ALONE_FILE, kept)

    facts = benchmark.run(request, backend, sink, peak_memory_bytes, device, keep)
    found = facts | {"versions": told}
    return ChildResult(outputs=_cache(request, facts), facts=found)


def _cache(request: benchmark.Request, facts: dict[str, Any]) -> list[ChildOutput]:
    told = facts.get("runtime_cache")
    if told is None or request.cache is None:
        return []
    name = file_name(str(told["made_for"]["gpu"]))
    return [
        ChildOutput(
            role="runtime-cache", name=name, path=request.cache, media_type=RUNTIME_CACHE_TYPE
        )
    ]


def versions(backend: Backend) -> dict[str, Any]:
    """Return the versions of all that had a say."""
    return {
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "onnx": version("onnx"),
        "enginefarm": version("enginefarm"),
        **backend.versions(),
    }


def peak_memory_bytes() -> int:
    """Return the most resident memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
