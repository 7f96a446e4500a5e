"""The build's own metric, added up batch by batch for the original and for the engine. Pure.

What cannot be computed has no number, and the report says why. Only what the metric needs is kept:
a class or two counts for a sample, and a whole vector only where vectors are compared; there may be
only so many of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from enginefarm.gate import RECALL_AT, EvaluationMetric, MetricName
from enginefarm.report import MetricReport
from workers.backends.base import Array
from workers.measurement import labelled
from workers.measurement.labelled import Unfit

MAX_VECTOR_BYTES = 128 << 20
MAX_VECTORS = 20_000
"""Each is compared with all others."""

Labels = np.ndarray[Any, np.dtype[np.int64]]


class MetricTally:
    """What both sides answered so far, and to which labels."""

    def __init__(self, metric: EvaluationMetric, labels: Array) -> None:
        """Start with no answers; ``labels`` are those of the whole dataset."""
        self._metric = metric
        self._every = labels
        self._seen: list[Labels] = []
        self._sides = (_Side(metric), _Side(metric))
        self._reason: str | None = (
            None if labels.dtype.kind in "iu" else "the labels are no whole numbers"
        )

    def add(self, first: int, count: int, reference: Array, engine: Array) -> None:
        """Add what both say of ``count`` samples, the ``first`` by its place in the dataset."""
        if self._reason is not None:
            return
        labels = self._every[first : first + count].astype(np.int64)
        try:
            for side, output in zip(self._sides, (reference, engine), strict=True):
                side.add(_rows(output, count), labels)
        except Unfit as error:
            self._reason = str(error)
            return
        self._seen.append(labels)

    def result(self) -> MetricReport:
        """Return both values and the loss, or why there are none."""
        head = {
            "name": self._metric.name,
            "output": self._metric.output,
            "labels": self._metric.labels,
        }
        reason = self._reason or (None if self._seen else "the output was never compared")
        if reason is not None:
            return MetricReport(**head, reason=reason)
        labels = np.concatenate(self._seen)
        original, engine = (side.value(labels) for side in self._sides)
        if original is None or engine is None:
            return MetricReport(**head, reason=_nothing_to_judge(self._metric))
        worse = (
            original[0] - engine[0] if self._metric.name.more_is_better else engine[0] - original[0]
        )
        return MetricReport(
            **head, original=original[0], engine=engine[0], loss=worse, counted=original[1]
        )


def joined(labels: Sequence[Array], padding: int) -> Array:
    """Return the labels of all sizes as one array; rows are padded to the longest."""
    width = max(row.shape[-1] for row in labels)
    if labels[0].ndim > 1:
        labels = [
            np.pad(row, ((0, 0), (0, width - row.shape[-1])), constant_values=padding)
            if row.shape[-1] < width
            else row
            for row in labels
        ]
    return np.concatenate(labels)


class _Side:
    """The answers of one of the two."""

    def __init__(self, metric: EvaluationMetric) -> None:
        self._metric = metric
        self._kept: list[Array] = []
        self._bytes = 0
        self._wrong = self._total = 0

    def add(self, output: Array, labels: Labels) -> None:
        name = self._metric.name
        if name in RECALL_AT:
            self._keep_vectors(output)
        elif name in {MetricName.ACCURACY, MetricName.F1_MACRO}:
            self._kept.append(labelled.classes(output, 1))
        else:
            self._count(labelled.classes(output, 2), labels)

    def _keep_vectors(self, output: Array) -> None:
        if output.ndim != 2 or output.dtype.kind != "f":  # noqa: PLR2004 - samples and their vectors
            message = f"an output of shape {list(output.shape)} is not one vector for a sample"
            raise Unfit(message)
        self._bytes += output.size * 4
        self._total += len(output)
        if self._bytes > MAX_VECTOR_BYTES or self._total > MAX_VECTORS:
            message = f"more than {MAX_VECTORS} vectors or {MAX_VECTOR_BYTES >> 20} MiB of them"
            raise Unfit(message)
        self._kept.append(output.astype(np.float32))

    def _count(self, tokens: Labels, labels: Labels) -> None:
        padding = self._metric.padding
        if self._metric.name is MetricName.CTC_ERROR_RATE:
            wrong, total = labelled.ctc_errors(tokens, labels, padding, self._metric.blank)
        else:
            wrong, total = labelled.token_errors(tokens, labels, padding)
        self._wrong += wrong
        self._total += total

    def value(self, labels: Labels) -> tuple[float, int] | None:
        """Return the metric and of how many samples or labels it is."""
        name = self._metric.name
        if name in RECALL_AT:
            vectors = np.concatenate(self._kept)
            return labelled.embedding_recall(vectors, labels, RECALL_AT[name])
        if name in {MetricName.ACCURACY, MetricName.F1_MACRO}:
            judge = labelled.accuracy if name is MetricName.ACCURACY else labelled.f1_macro
            return judge(np.concatenate(self._kept), labels), len(labels)
        return (self._wrong / self._total, self._total) if self._total else None


def _rows(output: Array, count: int) -> Array:
    """Return the output with one row for each sample.

    Raises:
        Unfit: it has another number of rows than samples.
    """
    if output.ndim == 0 or output.shape[0] != count:
        message = f"an output of shape {list(output.shape)} has no row for each of {count} samples"
        raise Unfit(message)
    return output


def _nothing_to_judge(metric: EvaluationMetric) -> str:
    if metric.name in RECALL_AT:
        return f"no label of {metric.labels!r} occurs twice: there is nothing to find"
    return f"{metric.labels!r} holds padding only"
