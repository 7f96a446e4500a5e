"""Percentiles by trtexec's rule, and when a median has settled."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.measurement.latency import median, percentile, settled, summarize


@pytest.mark.parametrize(
    ("count", "percent", "index"),
    [
        # max(n - 1 - int((1 - p / 100) * n), 0) in single precision, worked out by hand
        (1, 99, 0),
        (2, 50, 0),
        (10, 90, 8),
        (10, 99, 9),
        (100, 90, 89),
        (100, 95, 94),
        (100, 99, 99),  # 1 - 0.99f is a little less than 0.01
        (1000, 99, 990),
        (250, 99, 247),
        (50, 99, 49),
    ],
)
def test_percentile_is_the_element_that_trtexec_takes(
    count: int, percent: float, index: int
) -> None:
    assert percentile([float(i) for i in range(count)], percent) == index


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=300))
def test_percentiles_are_measured_values_in_order(samples: list[float]) -> None:
    found = summarize(samples)
    assert found.min <= found.p50 <= found.max
    assert found.p90 <= found.p95 <= found.p99 <= found.max
    assert {found.p90, found.p95, found.p99} <= set(samples)
    assert found.count == len(samples)


def test_summary_of_known_numbers() -> None:
    found = summarize([4.0, 2.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert (found.mean, found.std, found.p50, found.cov) == (5.0, 2.0, 4.5, 0.4)


def test_median_of_an_odd_and_an_even_number_of_values() -> None:
    assert median([1.0, 2.0, 9.0]) == 2.0
    assert median([1.0, 2.0, 4.0, 9.0]) == 3.0


def test_one_sample_has_no_spread() -> None:
    found = summarize([3.0])
    assert found.std == 0.0
    assert math.isclose(found.p99, 3.0)


@pytest.mark.parametrize(
    ("medians", "expected"),
    [
        ([], False),
        ([10.0, 10.0], False),  # one change may be luck
        ([10.0, 10.1, 10.0], True),
        ([10.0, 11.0, 11.0], False),
        ([10.0, 11.0, 11.0, 11.1], True),
        ([10.0, 10.0, 10.3], False),
    ],
)
def test_a_median_has_settled_after_two_small_changes_in_a_row(
    medians: list[float],
    expected: bool,  # noqa: FBT001 - the answer
) -> None:
    assert settled(medians, within=0.02) is expected
