"""Which samples are kept to be looked at."""

from __future__ import annotations

import numpy as np

from enginefarm.report import MAX_WORST
from workers.measurement.accuracy import OutputTally
from workers.measurement.worst import KEPT_OF_EACH, WorstSamples


def test_the_largest_errors_and_the_smallest_cosines_are_kept_and_no_more() -> None:
    samples = WorstSamples()
    for number in range(100):
        samples.add(number, 1, float(number), 1 - (100 - number) / 1000)

    kept = samples.rows()
    assert [row.sample for row in kept[:KEPT_OF_EACH]] == list(range(99, 99 - KEPT_OF_EACH, -1))
    # Sample 0 has the smallest cosine and no error at all: nothing is wrong with it.
    assert sorted(row.sample for row in kept[KEPT_OF_EACH:]) == list(range(1, 1 + KEPT_OF_EACH))
    assert len(kept) == MAX_WORST


def test_of_equals_the_earlier_is_kept() -> None:
    samples = WorstSamples()
    for number in range(50):
        samples.add(number, 1, 0.5, None)
    assert [row.sample for row in samples.rows()] == list(range(KEPT_OF_EACH))


def test_a_sample_is_named_by_its_place_in_the_data() -> None:
    tally = OutputTally("y", batch_first=True)
    for first in (0, 4, 8):
        reference = np.ones((4, 2))
        engine = reference.copy()
        if first == 4:
            engine[2, 1] = 3.0
        tally.add(reference, engine, first=first, count=4)

    (row,) = tally.result().worst
    assert (row.sample, row.together, row.max_abs_error) == (6, 1, 2.0)
    assert row.cosine is not None
    assert row.cosine < 0.95


def test_rows_of_one_sample_are_that_sample() -> None:
    """A sample that is a whole input of three rows is one sample, whichever row is wrong."""
    tally = OutputTally("y", batch_first=True)
    tally.add(np.zeros((3, 2)), np.array([[0, 0], [0, 1.0], [0, 0]]), first=5, count=1)
    (row,) = tally.result().worst
    assert (row.sample, row.together, row.cosine) == (5, 1, 0.0)


def test_where_samples_are_not_told_apart_it_says_of_how_many_it_is() -> None:
    tally = OutputTally("sum", batch_first=False)
    tally.add(np.array([1.0]), np.array([2.0]), first=8, count=4)
    (row,) = tally.result().worst
    assert (row.sample, row.together) == (8, 4)
