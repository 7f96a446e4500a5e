"""The build's own metric of both sides, batch by batch."""

from __future__ import annotations

import numpy as np
import pytest

from enginefarm.gate import EvaluationMetric, MetricName
from enginefarm.report import MetricReport
from workers.backends.base import Array
from workers.measurement import evaluation
from workers.measurement.evaluation import MetricTally, joined


def metric(name: MetricName, **changed: int) -> EvaluationMetric:
    return EvaluationMetric(name=name, output="y", labels="labels", **changed)


def judged(
    asked: EvaluationMetric, labels: Array, reference: Array, engine: Array, size: int = 2
) -> MetricReport:
    tally = MetricTally(asked, labels)
    for first in range(0, len(reference), size):
        part = slice(first, first + size)
        tally.add(first, len(reference[part]), reference[part], engine[part])
    return tally.result()


def one_hot(*chosen: int) -> Array:
    return np.eye(3, dtype="f4")[list(chosen)]


def test_accuracy_of_both_sides_and_what_was_lost() -> None:
    labels = np.array([0, 1, 2, 0, 1])
    told = judged(
        metric(MetricName.ACCURACY), labels, one_hot(0, 1, 2, 0, 2), one_hot(0, 1, 0, 1, 2)
    )

    assert (told.original, told.engine, told.counted) == (0.8, 0.4, 5)
    assert told.loss == pytest.approx(0.4)
    assert told.reason is None


def test_an_engine_that_is_better_loses_less_than_nothing() -> None:
    labels = np.array([0, 1])
    told = judged(metric(MetricName.ACCURACY), labels, one_hot(0, 0), one_hot(0, 1))
    assert told.loss == -0.5


def test_samples_that_were_left_out_are_not_judged() -> None:
    """A fixed batch leaves the rest of a dataset out; their labels are there all the same."""
    labels = np.array([0, 1, 2])
    told = judged(metric(MetricName.ACCURACY), labels, one_hot(0, 1), one_hot(0, 1))
    assert (told.original, told.counted) == (1.0, 2)


def test_labels_of_several_sizes_are_padded_to_the_longest() -> None:
    rows = [np.array([[1, 2]]), np.array([[3, 4, 5]])]
    assert joined(rows, -7).tolist() == [[1, 2, -7], [3, 4, 5]]
    assert joined([np.array([1, 2]), np.array([3])], -1).tolist() == [1, 2, 3]
    tally = MetricTally(metric(MetricName.TOKEN_ERROR_RATE), joined(rows, -1))
    tally.add(0, 1, np.array([[1, 2]]), np.array([[1, 0]]))
    tally.add(1, 1, np.array([[3, 4, 5]]), np.array([[3, 4, 5]]))
    told = tally.result()
    assert (told.original, told.engine, told.counted) == (0.0, 0.2, 5)


def test_more_errors_are_a_loss() -> None:
    labels = np.array([[1, 2], [2, -1]])
    reference, engine = np.array([[1, 2], [2, 0]]), np.array([[1, 0], [2, 0]])
    told = judged(metric(MetricName.TOKEN_ERROR_RATE), labels, reference, engine, size=1)
    assert (told.original, told.counted) == (0.0, 3)
    assert told.loss == told.engine == pytest.approx(1 / 3)


def test_ctc_uses_the_blank_and_the_padding_that_it_is_told() -> None:
    labels = np.array([[0, 1, 99]])
    told = judged(
        metric(MetricName.CTC_ERROR_RATE, blank=2, padding=99),
        labels,
        np.stack([one_hot(0, 2, 1)]),
        np.stack([one_hot(0, 2, 2)]),
    )
    assert (told.original, told.engine, told.counted) == (0.0, 0.5, 2)


def test_embeddings_are_compared_across_batches() -> None:
    labels = np.array([0, 1, 0, 1])
    apart = np.array([[1, 0], [0, 1], [1, 0.1], [0.1, 1]], dtype="f4")
    mixed = np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], dtype="f4")
    told = judged(metric(MetricName.EMBEDDING_RECALL_AT_1), labels, apart, mixed)
    assert (told.original, told.engine, told.loss) == (1.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("asked", "labels", "output", "why"),
    [
        (MetricName.ACCURACY, np.array([0, 1]), np.zeros((2, 3, 4), "f"), "neither a class nor"),
        (MetricName.ACCURACY, np.array([0, 1]), np.zeros((5, 3), "f"), "no row for each of 2"),
        (MetricName.ACCURACY, np.array([0.0, 1.0]), np.zeros((2, 3), "f"), "no whole numbers"),
        (MetricName.TOKEN_ERROR_RATE, np.full((2, 2), -1), np.zeros((2, 2), "i8"), "padding only"),
        (MetricName.EMBEDDING_RECALL_AT_1, np.array([0, 1]), np.eye(2, dtype="f"), "occurs twice"),
        (MetricName.EMBEDDING_RECALL_AT_1, np.array([0, 0]), np.zeros((2, 1, 2), "f"), "vector"),
    ],
)
def test_what_cannot_be_computed_has_no_number_and_a_reason(
    asked: MetricName, labels: Array, output: Array, why: str
) -> None:
    tally = MetricTally(metric(asked), labels)
    tally.add(0, 2, output, output)
    told = tally.result()
    assert (told.original, told.engine, told.loss) == (None, None, None)
    assert why in (told.reason or "")


def test_too_many_vectors_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "MAX_VECTORS", 3)
    told = judged(
        metric(MetricName.EMBEDDING_RECALL_AT_1),
        np.zeros(4, dtype="i8"),
        np.ones((4, 2), "f"),
        np.ones((4, 2), "f"),
    )
    assert "more than 3 vectors" in (told.reason or "")


def test_an_output_that_never_came_is_told() -> None:
    told = MetricTally(metric(MetricName.ACCURACY), np.array([0])).result()
    assert told.reason == "the output was never compared"
