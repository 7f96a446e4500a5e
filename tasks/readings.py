"""How each metric is read from a report. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

from enginefarm.gate import Metric
from enginefarm.report import AccuracyReport, BuildReport, LatencyReport, OutputAccuracy

PER_OUTPUT: dict[Metric, tuple[Callable[[OutputAccuracy], float | None], bool]] = {
    # metric: how to read it, and whether more is better
    Metric.COSINE: (lambda row: row.cosine, True),
    # Before schema 2 of the report ``cosine`` was the worst sample's.
    Metric.COSINE_WORST: (
        lambda row: row.cosine if row.cosine_worst is None else row.cosine_worst,
        True,
    ),
    Metric.SNR_DB: (lambda row: math.inf if row.exact else row.snr_db, True),
    Metric.PSNR_DB: (lambda row: math.inf if row.exact else row.psnr_db, True),
    Metric.MAX_ABS_ERROR: (lambda row: row.max_abs_error, False),
    Metric.MEAN_ABS_ERROR: (lambda row: row.mean_abs_error, False),
    Metric.TOP1_AGREEMENT: (lambda row: row.top1_agreement, True),
    Metric.TOP5_AGREEMENT: (lambda row: row.top5_agreement, True),
}
LATENCIES: dict[Metric, Callable[[LatencyReport], float]] = {
    Metric.LATENCY_P50_MS: lambda row: row.end_to_end_ms.p50,
    Metric.LATENCY_P99_MS: lambda row: row.end_to_end_ms.p99,
}
OF_METRIC = frozenset({Metric.METRIC_VALUE, Metric.METRIC_LOSS})
_ERRORS = {
    metric for metric in Metric if metric.plain in {Metric.MAX_ABS_ERROR, Metric.MEAN_ABS_ERROR}
}
RELATIVE = frozenset({*LATENCIES, Metric.ENGINE_BYTES, *_ERRORS})
"""What is never below zero and has no upper end: a percentage of it means something."""


def at_profiles(report: BuildReport) -> list[LatencyReport]:
    """Return the latencies at the build's profiles, without a sweep over batches."""
    return [row for row in report.latency if not row.swept]


def accuracy_of(metric: Metric, report: BuildReport) -> AccuracyReport | None:
    """Return the accuracy that a metric is of: the engine's, or the model file's."""
    if not metric.of_model_file:
        return report.accuracy
    return None if report.precision is None else report.precision.model_accuracy


def why_no_accuracy(metric: Metric, report: BuildReport) -> str:
    """Say why a report has no such accuracy."""
    if not metric.of_model_file:
        return report.reason or report.accuracy_reason or "accuracy was not measured"
    if report.precision is None:
        return "the model was built in the precision it came in"
    return report.precision.model_accuracy_reason or "the model file's accuracy was not measured"
