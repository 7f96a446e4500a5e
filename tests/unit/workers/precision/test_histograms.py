"""Ranges come from all values that were seen, in bounded memory, in whatever order they come."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from workers.backends.base import Array
from workers.precision.histograms import BINS, GROWTH, Histograms, grown

METHODS = sorted(BINS)


def seen(method: str, *samples: Array, percentile: float = 99.0) -> Histograms:
    found = Histograms(method, percentile)
    for sample in samples:
        found.collect({"x": [sample.astype(np.float32)]})
    return found


def reach(found: Histograms) -> float:
    low, high = found.compute_collection_result()["x"][:2]
    return max(abs(float(low)), abs(float(high)))


def test_a_percentile_is_that_of_all_values_in_whatever_order_they_come() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal(4000) * scale for scale in (0.5, 1.0, 6.0)]
    wanted = float(np.quantile(np.abs(np.concatenate(parts)), 0.99))
    for order in permutations(parts):
        assert reach(seen("percentile", *order)) == pytest.approx(wanted, rel=0.01)


@pytest.mark.parametrize("method", METHODS)
def test_a_loud_sample_after_one_next_to_silence_takes_no_more_memory(method: str) -> None:
    loud = np.random.default_rng(0).standard_normal(4000)
    found = seen(method, loud * 1e-9, loud, loud * 1e-30, np.zeros(4))
    assert len(found.histogram_dict["x"][0]) <= GROWTH * BINS[method]
    assert 0.3 < reach(found) < 5


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("values", [[0.0] * 9, [1e-42] * 9, [1e-42, -2e-42], []])
def test_values_that_cannot_be_told_apart_have_no_range(method: str, values: list[float]) -> None:
    assert reach(seen(method, np.array(values))) == 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("values", [[5.0] * 9, [5.0, np.nextafter(np.float32(5), np.float32(6))]])
def test_values_that_are_nearly_the_same_have_that_range(method: str, values: list[float]) -> None:
    assert reach(seen(method, np.array(values))) == pytest.approx(5, rel=1e-3)


def test_a_mask_of_infinity_is_in_no_range() -> None:
    assert reach(seen("percentile", np.array([-np.inf, 2.0, 1.0]))) == pytest.approx(2, rel=1e-3)


def test_no_value_is_lost_when_a_histogram_grows() -> None:
    counts = np.arange(1, 9)
    for top in (1.0, 1.3, 7.9, GROWTH * 1.5, 1e9):
        found, end = grown(counts, 1.0, top, 8)
        assert found.sum() == counts.sum()
        assert end >= top
        assert len(found) <= GROWTH * 8
