"""The latency of an engine at one shape, with where its time goes and how the machine was."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from enginefarm.device_times import DeviceTimes
from enginefarm.errors import JobFailed
from enginefarm.report import LatencyReport
from enginefarm.spec import Profile, ShapeRange
from enginefarm.state import Blame
from workers.backends.base import ProgressSink, Runner
from workers.measurement import inputs
from workers.measurement.comparison import run_failure
from workers.measurement.conditions import Conditions, ReadEnergy, Worked
from workers.measurement.device import OnDevice, host_bound, open_on_device, time_on_device
from workers.measurement.request import Request
from workers.measurement.streams import Swept, sweep_streams
from workers.measurement.timing import measure
from workers.measurement.trusting import Spent

GPU_COMPUTE, END_TO_END = "the GPU compute time", "the latency"


@dataclass(frozen=True)
class Loaded:
    """An engine in memory, what it took, and the machine it is measured on."""

    engine: Runner
    load_ms: float
    peak: Callable[[], int]
    conditions: Conditions


@dataclass(frozen=True)
class Place:
    """A shape to measure at. ``swept``: for a sweep over batches, and not for the profile."""

    profile: Profile | None
    swept: bool = False


def places(profiles: list[Profile | None], batches: list[int]) -> Iterator[Place]:
    """Yield every profile at its opt, and after it each other batch of the sweep.

    Raises:
        JobFailed: a profile does not allow such a batch (code ``batch_outside_profile``).
    """
    for profile in profiles:
        yield Place(profile)
        swept = (at_batch(profile, batch) for batch in dict.fromkeys(batches))
        yield from (Place(each, swept=True) for each in swept if each != profile)


def at_batch(profile: Profile | None, batch: int) -> Profile:
    """Return a profile whose opt has another batch: the first dimension of inputs that share it.

    Raises:
        JobFailed: as for :func:`places`.
    """
    firsts = {row.opt[0] for row in (profile or {}).values() if row.opt}
    if profile is None or len(firsts) != 1:
        raise _no_batch(batch, "no profile names one batch that all inputs share")
    made = {}
    for name, row in profile.items():
        if not row.opt:
            made[name] = row
        elif not row.min[0] <= batch <= row.max[0]:
            raise _no_batch(batch, f"{name} may have {row.min[0]} to {row.max[0]}")
        else:
            made[name] = ShapeRange(min=row.min, opt=[batch, *row.opt[1:]], max=row.max)
    return made


def _no_batch(batch: int, why: str) -> JobFailed:
    return JobFailed(
        f"A batch of {batch} cannot be measured.",
        blame=Blame.PERSON,
        code="batch_outside_profile",
        why=f"In the build's profile {why}.",
        fix="Widen the profile, or leave the batch out of options.benchmark.batches.",
    )


def latency_at(place: Place, request: Request, loaded: Loaded, sink: ProgressSink) -> LatencyReport:
    """Measure at one shape, again while it cannot be relied on, up to the node's limit.

    Raises:
        JobFailed: the engine does not run with such inputs.
        Stopped: the sink says so.
    """
    feeds = first_feeds(request, loaded.engine, place.profile)
    try:
        loaded.engine.run(feeds)
    except Exception as error:
        raise run_failure(request, feeds, error) from error
    ready = open_on_device(loaded.engine, feeds, cuda_graph=request.options.cuda_graph)
    row, trust = loaded.conditions.until_quiet(
        lambda energy: _measured(request, loaded, feeds, (ready, energy), sink)
    )
    swept = Swept([])
    if not place.swept:
        ways = time.perf_counter, sink
        swept = sweep_streams(loaded.engine, feeds, request.options, loaded.conditions, ways)
    return row.model_copy(
        update={
            "trust": trust,
            "swept": place.swept,
            "streams": swept.rows,
            "streams_reason": swept.reason,
        }
    )


def _measured(
    request: Request,
    loaded: Loaded,
    feeds: inputs.Feeds,
    device: tuple[OnDevice, ReadEnergy],
    sink: ProgressSink,
) -> Worked[LatencyReport]:
    ready, energy = device
    engine, options = loaded.engine, request.options
    before = energy()
    found = measure(lambda: engine.run(feeds), options, time.perf_counter, sink)
    runs, between = found.warmup_iterations + found.distribution.count, energy()
    on_device = time_on_device(ready, options, time.perf_counter, sink)
    spread, spent = (END_TO_END, found.distribution.cov), _spent(before, between, runs)
    if on_device is not None:
        spread = _spread(on_device[0])
        spent = _spent(between, energy(), on_device[1])
    report = LatencyReport(
        shapes={name: list(array.shape) for name, array in feeds.items()},
        batch=inputs.shared_batch(feeds),
        end_to_end_ms=found.distribution,
        throughput_qps=found.throughput_qps,
        warmup_iterations=found.warmup_iterations,
        warmup_ms=found.warmup_ms,
        stable=found.stable,
        notes=[f"inputs: {request.data}", *found.notes],
        load_ms=loaded.load_ms,
        peak_memory_bytes=loaded.peak(),
        threads=engine.threads,
        histogram=found.histogram,
        over_time=found.over_time,
        runs_ms=found.runs_ms,
        device=on_device[0] if on_device else None,
        device_reason=ready.reason,
    )
    return Worked(report, spread, spent, disturbed=found.disturbed)


def _spread(told: DeviceTimes) -> tuple[str, float]:
    """Return what varies, and how much; where the host is what varies, that is said with it."""
    compute = told.gpu_compute_ms
    bound = host_bound(told.enqueue_ms.p50, compute.p50, cuda_graph=told.cuda_graph)
    return (f"{GPU_COMPUTE} ({bound})" if bound else GPU_COMPUTE), compute.cov


def _spent(before: int | None, after: int | None, runs: int) -> Spent:
    return Spent(None if before is None or after is None else after - before, runs)


def first_feeds(request: Request, engine: Runner, profile: Profile | None) -> inputs.Feeds:
    """Return the first batch of what an engine is measured with.

    Raises:
        JobFailed: the dataset does not fill one (code ``dataset_too_small``).
    """
    for feeds, _ in request.batches(engine.inputs, profile):
        return feeds
    raise JobFailed(
        "The evaluation dataset has too few samples to fill one batch.",
        blame=Blame.PERSON,
        code="dataset_too_small",
        why="The model's batch is fixed, and the dataset is shorter.",
        fix="Give at least one batch of samples.",
    )
