"""Where the time of runs goes on a GPU: trtexec's metrics, from the device's own events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from enginefarm.device_times import DeviceTimes
from enginefarm.spec import BenchmarkOptions
from workers.backends.base import (
    Array,
    Clock,
    DeviceRunner,
    NotOnDevice,
    ProgressSink,
    Runner,
    RunsOnDevice,
    RunTimes,
)
from workers.measurement.latency import summarize
from workers.measurement.timing import measure

MOST_ENQUEUE = 0.8
"""trtexec warns where the host takes more of the GPU compute time than this to hand a run over."""
NOT_BY_EVENTS = "this runtime does not let inputs and outputs stay on a device"


@dataclass
class OnDevice:
    """An engine that is ready to be timed on its device, or why it is not."""

    runner: DeviceRunner | None = None
    reason: str | None = None
    notes: list[str] = field(default_factory=list)


def open_on_device(engine: Runner, feeds: Mapping[str, Array], *, cuda_graph: bool) -> OnDevice:
    """Bind inputs and outputs on the device; without a graph if it cannot be one, and saying so."""
    if not isinstance(engine, RunsOnDevice):
        return OnDevice(reason=NOT_BY_EVENTS)
    notes = []
    if cuda_graph:
        try:
            return OnDevice(engine.on_device(feeds, cuda_graph=True))
        except NotOnDevice as error:
            notes.append(f"no CUDA graph could be made of it: {error}")
    try:
        return OnDevice(engine.on_device(feeds, cuda_graph=False), notes=notes)
    except NotOnDevice as error:
        return OnDevice(reason=str(error), notes=notes)


def time_on_device(
    opened: OnDevice, options: BenchmarkOptions, clock: Clock, sink: ProgressSink
) -> tuple[DeviceTimes, int] | None:
    """Time an engine on its device; also return how often it was run, warm-up included.

    Raises:
        Stopped: the sink says so, between two runs.
    """
    runner = opened.runner
    if runner is None:
        return None
    runs: list[RunTimes] = []
    found = measure(lambda: runs.append(runner.run()), options, clock, sink)
    kept = runs[found.warmup_iterations :]
    enqueue, compute = (
        summarize([row.enqueue for row in kept]),
        summarize([r.compute for r in kept]),
    )
    bound = host_bound(enqueue.p50, compute.p50, cuda_graph=runner.cuda_graph)
    times = DeviceTimes(
        latency_ms=summarize([row.h2d + row.compute + row.d2h for row in kept]),
        enqueue_ms=enqueue,
        h2d_ms=summarize([row.h2d for row in kept]),
        gpu_compute_ms=compute,
        d2h_ms=summarize([row.d2h for row in kept]),
        throughput_qps=found.throughput_qps,
        cuda_graph=runner.cuda_graph,
        stable=found.stable,
        notes=[*opened.notes, *([bound] if bound else []), *found.notes],
    )
    return times, len(runs)


def host_bound(enqueue_ms: float, compute_ms: float, *, cuda_graph: bool) -> str | None:
    """Tell whether the host is what the runs wait for, by trtexec's bound, and what helps."""
    if enqueue_ms <= MOST_ENQUEUE * compute_ms:
        return None
    helps = "a larger batch" if cuda_graph else "a CUDA graph or a larger batch"
    return (
        f"bound by the host: it took {enqueue_ms:.3g} ms to hand over runs that took the device"
        f" {compute_ms:.3g} ms; {helps} may help"
    )
