"""Where the time of a run goes on a GPU, and how the machine was, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from enginefarm.cli.grid import NOISY, Column, Grid
from enginefarm.counted import counted
from enginefarm.report import LatencyReport
from enginefarm.trust_record import Clock, TrustRecord


def shapes_of(row: LatencyReport) -> str:
    """Return the shapes of a measurement: ``x 1x3x224x224``."""
    return ", ".join(f"{name} {'x'.join(map(str, it))}" for name, it in row.shapes.items())


def device_grid(rows: Iterable[LatencyReport]) -> Grid:
    """Return the medians of trtexec's metrics, for each shape that has them."""
    names = ("latency", "H2D", "GPU compute", "D2H", "enqueue", "varies by", "per second")
    heads = (Column("on the device", free=True, head=True), Column("graph"))
    grid = Grid((*heads, *(Column(name, right=True) for name in names)))
    for row in rows:
        told = row.device
        if told is None:
            continue
        times = (told.latency_ms, told.h2d_ms, told.gpu_compute_ms, told.d2h_ms, told.enqueue_ms)
        shown = (f"{each.p50:.3f} ms" for each in times)
        spread = f"{told.gpu_compute_ms.cov:.1%}"
        graph = "yes" if told.cuda_graph else "no"
        grid.add(shapes_of(row), graph, *shown, spread, f"{told.throughput_qps:.1f}")
    return grid


def streams_grid(rows: Iterable[LatencyReport]) -> Grid:
    """Return throughput and latency by how many run at a time, for each shape that was swept."""
    names = ("streams", "per second", "P50", "P99", "runs")
    heads = (Column("several at a time", free=True, head=True),)
    grid = Grid((*heads, *(Column(name, right=True) for name in names), Column("")))
    for row in rows:
        for each in row.streams:
            ms = each.end_to_end_ms
            doubt = NOISY if each.trust is not None and each.trust.tainted else ""
            grid.add(
                shapes_of(row),
                str(each.streams),
                f"{doubt}{each.throughput_qps:.1f}",
                f"{ms.p50:.3f} ms",
                f"{ms.p99:.3f} ms",
                str(ms.count),
                "best" if each.best else "",
            )
    return grid


def streams_line(row: LatencyReport) -> Iterator[str]:
    """Yield which rows of a sweep over streams are tainted, and why others are not there."""
    place = shapes_of(row) or "its one shape"
    for each in row.streams:
        if each.trust is not None and each.trust.tainted:
            many = counted(each.streams, "stream")
            yield f"{NOISY} {many} at {place}, tainted: {'; '.join(each.trust.tainted)}"
    if row.streams_reason is not None:
        yield f"streams   {row.streams_reason}"


def trust_lines(row: LatencyReport) -> Iterator[str]:
    """Yield what was seen of the device while a latency was measured on it."""
    if row.device_reason is not None and row.trust is not None and row.trust.sm_clock is not None:
        yield f"no times of the device itself: {row.device_reason}"
    for note in row.device.notes if row.device is not None else []:
        yield f"on the device: {note}"
    trust = row.trust
    if trust is not None and trust.samples:
        yield f"conditions {', '.join(_conditions(trust))}"
        yield f"alone     {_alone(trust)}"


def _alone(trust: TrustRecord) -> str:
    answer = {True: "yes", False: "no", None: "not known"}[trust.exclusive]
    return f"{answer}: {trust.exclusive_proof}"


def _conditions(trust: TrustRecord) -> Iterator[str]:
    for name, clock in (("SM", trust.sm_clock), ("memory", trust.memory_clock)):
        if clock is not None:
            yield f"{name} {_clock(clock)}"
    if trust.throttle_reasons is not None:
        yield f"held down by {', '.join(trust.throttle_reasons) or 'nothing'}"
    if trust.temperature_max_c is not None:
        yield f"at most {trust.temperature_max_c} °C"
    if trust.power_mean_w is not None:
        yield f"{trust.power_mean_w:.0f} W"
    if trust.energy_per_inference_mj is not None:
        yield f"{trust.energy_per_inference_mj:.3g} mJ each"
    yield f"measured {counted(trust.times_measured, 'time')}"


def _clock(clock: Clock) -> str:
    return f"{clock.start} → {clock.median:.0f} → {clock.end} MHz"
