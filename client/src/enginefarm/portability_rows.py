"""The rows of a portability table: one for each SKU and shape, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from enginefarm.report import AccuracyReport, PortabilityReport, SkuReport
from enginefarm.shapes_text import shapes_text

_NONE = (None,) * 512
"""Stands for ratios that a report lacks."""


class SkuRow(NamedTuple):
    """One SKU at one shape; ``None`` is not measured."""

    sku: str
    driver: str | None
    shapes: str | None
    p50_ms: float | None
    p99_ms: float | None
    qps: float | None
    ratio: float | None
    cosine: float | None
    max_error: float | None
    gates: str
    doubt: str
    """Why the numbers are not there, or not to be relied on."""


def sku_rows(report: PortabilityReport) -> Iterator[SkuRow]:
    """Yield a row for each SKU and shape, and one for each SKU that was not measured."""
    for row in report.skus:
        driver = None if row.machine is None else row.machine.driver
        cosine, error = _worst(row.accuracy)
        judged = (cosine, error, _gates(row))
        if row.reason is not None:
            yield SkuRow(row.sku, *(None,) * 6, *judged, row.reason)
        for latency, ratio in zip(row.latency, [*row.ratios, *_NONE], strict=False):
            ms, trust = latency.end_to_end_ms, latency.trust
            doubts = trust.tainted if trust is not None else []
            doubts = doubts if latency.stable else [*doubts, "its median had not settled"]
            if row.accuracy is None and row.accuracy_reason:
                doubts = [*doubts, f"accuracy: {row.accuracy_reason}"]
            shapes = shapes_text(latency.shapes)
            numbers = (ms.p50, ms.p99, latency.throughput_qps, ratio)
            yield SkuRow(row.sku, driver, shapes, *numbers, *judged, "; ".join(doubts))


def summary(report: PortabilityReport) -> str:
    """Say what the ratios are to."""
    built = f"built on {report.compiled_on}" if report.compiled_on else "built without a GPU"
    return f"One engine, {built}; ratios are to {report.reference}, and above 1 is slower."


def _worst(accuracy: AccuracyReport | None) -> tuple[float | None, float | None]:
    """Return the worst output's cosine and error."""
    outputs = [] if accuracy is None else accuracy.outputs
    cosines = [row.cosine for row in outputs if row.cosine is not None]
    errors = [row.max_abs_error for row in outputs]
    return min(cosines, default=None), max(errors, default=None)


def _gates(row: SkuReport) -> str:
    missed = sum(not verdict.met for verdict in row.gates)
    if not row.gates:
        return "none"
    return f"missed {missed} of {len(row.gates)}" if missed else "met"
