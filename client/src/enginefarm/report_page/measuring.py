"""The part of a report's page about where time goes on a GPU, and how the machine was."""

from __future__ import annotations

from collections.abc import Iterator

from enginefarm.report import BuildReport, LatencyReport
from enginefarm.report_page.markup import Markup, join, number, table, tag
from enginefarm.report_page.plots import throughput
from enginefarm.runtime_cache import first_start
from enginefarm.shapes_text import shapes_text
from enginefarm.trust_record import TrustRecord

NOT_SHOWN = frozenset({"absent", "tainted", "sm_clock", "memory_clock"})


def measuring(report: BuildReport) -> Markup:
    """Return the device's own times and the conditions of each latency that has them."""
    parts = [part for row in report.latency for part in _of(row)]
    if report.runtime_cache is not None:
        parts.append(tag("p", f"{first_start(report.runtime_cache)}."))
    if not parts:
        return Markup()
    return tag("section", tag("h2", "How it was measured"), *parts)


def streams(report: BuildReport) -> Markup:
    """Return throughput and latency by how many run at a time, where that was measured."""
    parts = [part for row in report.latency for part in _streams(row)]
    return tag("section", tag("h2", "Several at a time"), *parts) if parts else Markup()


def _streams(row: LatencyReport) -> Iterator[Markup]:
    if not row.streams and row.streams_reason is None:
        return
    yield tag("h3", shapes_text(row.shapes))
    heads = ["streams", "per second", "P50 ms", "P99", "runs", "", "doubt"]
    rows = [
        [
            str(each.streams),
            *map(number, (each.throughput_qps, each.end_to_end_ms.p50, each.end_to_end_ms.p99)),
            number(each.end_to_end_ms.count),
            "best" if each.best else "",
            "; ".join(each.trust.tainted) if each.trust else "",
        ]
        for each in row.streams
    ]
    if rows:
        curve = throughput(row.streams)
        yield join(table(heads, rows), tag("figure", tag("figcaption", "Throughput"), curve))
    if row.streams_reason is not None:
        yield tag("p", row.streams_reason, class_="note")


def _of(row: LatencyReport) -> Iterator[Markup]:
    if row.device is None and row.trust is None:
        return
    shapes = ", ".join(f"{name} {'x'.join(map(str, it))}" for name, it in row.shapes.items())
    yield tag("h3", shapes)
    if row.device is not None:
        yield _device(row)
        yield from (tag("p", note, class_="note") for note in row.device.notes)
    elif row.device_reason is not None:
        yield tag("p", f"No times of the device itself: {row.device_reason}")
    if row.trust is not None:
        yield from _trust(row.trust)


def _device(row: LatencyReport) -> Markup:
    told = row.device
    if told is None:
        return Markup()
    named = {
        "latency": told.latency_ms,
        "H2D": told.h2d_ms,
        "GPU compute": told.gpu_compute_ms,
        "D2H": told.d2h_ms,
        "enqueue": told.enqueue_ms,
    }
    rows = [
        [name, *map(number, (ms.p50, ms.p90, ms.p95, ms.p99, ms.min, ms.max, ms.cov))]
        for name, ms in named.items()
    ]
    graph = "of a CUDA graph" if told.cuda_graph else "without a CUDA graph"
    words = f"By CUDA events, {graph}; {number(told.throughput_qps)} runs per second."
    heads = ["ms on the device", "P50", "P90", "P95", "P99", "min", "max", "CoV"]
    return join(table(heads, rows), tag("p", words))


def _trust(trust: TrustRecord) -> Iterator[Markup]:
    for reason in trust.tainted:
        yield tag("p", f"Tainted: {reason}", class_="bad")
    rows = [
        [name.replace("_", " "), _shown(value)]
        for name, value in trust.model_dump(mode="json").items()
        if name not in NOT_SHOWN and value is not None
    ]
    for name, clock in (("SM clock", trust.sm_clock), ("memory clock", trust.memory_clock)):
        if clock is not None:
            said = f"{clock.start} at the start, {clock.median:g} median, {clock.end} at the end"
            rows.append([name, f"{said} (MHz)"])
    rows += [[name.replace("_", " "), f"absent: {why}"] for name, why in trust.absent.items()]
    yield table(["condition", ""], rows, left=2)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
