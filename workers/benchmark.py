"""Measure an engine: latency, accuracy against the original in ONNX Runtime, speed beside a twin.

Nothing is made up: what could not be measured is None, with the reason beside it. When the engine
fails on an input, the original model is asked too: if it fails as well, the input is at fault.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from enginefarm.errors import FarmError, JobFailed
from enginefarm.report import LatencyReport
from enginefarm.spec import Profile
from enginefarm.state import Blame
from enginefarm.verdict_report import PairedRuns
from workers.backends.base import Backend, ProgressSink, Runner
from workers.diagnosis import shorten
from workers.measurement import inputs
from workers.measurement.comparison import compare, run_failure
from workers.measurement.request import Request as Request  # noqa: PLC0414 - it is how one is asked
from workers.measurement.side_by_side import side_by_side
from workers.measurement.timing import Stopped, measure
from workers.reporting import PartSink

LATENCY_SHARE = 0.7


def run(
    request: Request, backend: Backend, sink: ProgressSink, peak: Callable[[], int]
) -> dict[str, Any]:
    """Return the facts of a benchmark: latency by profile, accuracy, or why there is none."""
    began = time.perf_counter()
    engine = backend.load(request.engine, request.source.target, request.options.threads)
    load_ms = (time.perf_counter() - began) * 1000
    profiles: list[Profile | None] = list(request.source.profiles) or [None]
    latency = []
    share = (LATENCY_SHARE if request.twin is None else LATENCY_SHARE / 2) / len(profiles)
    try:
        for number, profile in enumerate(profiles):
            part = PartSink(sink, number * share, share)
            latency.append(_latency(request, engine, profile, part, load_ms, peak))
        rest = PartSink(sink, share * len(profiles), 0.0)
        accuracy, reason = compare(request, engine, profiles, rest)
        beside = against_twin(request, engine, backend, profiles, sink)
    except Stopped:
        raise JobFailed("The benchmark was stopped.", blame=Blame.NODE, code="cancelled") from None
    facts: dict[str, Any] = {
        "latency": [report.model_dump(mode="json") for report in latency],
        "accuracy": accuracy.model_dump(mode="json") if accuracy else None,
    }
    if reason is not None:
        facts["accuracy_reason"] = reason
    return facts | beside


def _latency(
    request: Request,
    engine: Runner,
    profile: Profile | None,
    sink: ProgressSink,
    load_ms: float,
    peak: Callable[[], int],
) -> LatencyReport:
    feeds = _first(request, engine, profile)
    try:
        engine.run(feeds)
    except Exception as error:
        raise run_failure(request, feeds, error) from error
    found = measure(lambda: engine.run(feeds), request.options, time.perf_counter, sink)
    return LatencyReport(
        shapes={name: list(array.shape) for name, array in feeds.items()},
        batch=inputs.shared_batch(feeds),
        end_to_end_ms=found.distribution,
        throughput_qps=found.throughput_qps,
        warmup_iterations=found.warmup_iterations,
        warmup_ms=found.warmup_ms,
        stable=found.stable,
        notes=[f"inputs: {request.data}", *found.notes],
        load_ms=load_ms,
        peak_memory_bytes=peak(),
        threads=engine.threads,
        histogram=found.histogram,
        over_time=found.over_time,
        runs_ms=found.runs_ms,
    )


def against_twin(
    request: Request,
    engine: Runner,
    backend: Backend,
    profiles: list[Profile | None],
    sink: ProgressSink,
) -> dict[str, Any]:
    """Return how fast the engine is beside its twin, or why that is not known.

    What is wrong with the twin is not held against the engine.

    Raises:
        Stopped: the sink says so.
    """
    if request.twin is None:
        return {}
    begin, rows = 1 - LATENCY_SHARE / 2, []
    share = LATENCY_SHARE / 2 / len(profiles)
    try:
        twin = backend.load(request.twin, request.source.target, request.options.threads)
        for number, profile in enumerate(profiles):
            part = PartSink(sink, begin + number * share, share)
            rows.append(_beside(request, (twin, engine), profile, part))
    except Stopped:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a runtime raises
        told = error.message if isinstance(error, FarmError) else shorten(str(error), 300)
        return {"comparison_reason": f"it could not be measured beside its twin: {told}"}
    return {"comparison": [row.model_dump(mode="json") for row in rows]}


def _beside(
    request: Request, both: tuple[Runner, Runner], profile: Profile | None, sink: ProgressSink
) -> PairedRuns:
    twin, engine = both
    # An input that nothing reads may be there in one of them only.
    fed = [_first(request, runner, profile) for runner in both]
    found = side_by_side(
        lambda: twin.run(fed[0]),
        lambda: engine.run(fed[1]),
        request.options,
        time.perf_counter,
        sink,
    )
    shapes = {name: list(array.shape) for name, array in fed[1].items()}
    return PairedRuns(shapes=shapes, **asdict(found))


def _first(request: Request, engine: Runner, profile: Profile | None) -> inputs.Feeds:
    for feeds, _ in request.batches(engine.inputs, profile):
        return feeds
    raise JobFailed(
        "The evaluation dataset has too few samples to fill one batch.",
        blame=Blame.PERSON,
        code="dataset_too_small",
        why="The model's batch is fixed, and the dataset is shorter.",
        fix="Give at least one batch of samples.",
    )
