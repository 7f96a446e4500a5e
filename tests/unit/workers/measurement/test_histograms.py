"""Histograms that stay small, and leave nothing out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from enginefarm.report import MAX_BINS
from workers.measurement.accuracy import WORST_ERROR, OutputTally
from workers.measurement.histograms import ErrorBins, latency_histogram


def test_every_error_is_in_the_bin_of_its_decade() -> None:
    bins = ErrorBins()
    bins.add(np.array([0.0, 0.0, 1.5e-3, 1.5e-3, 0.15]))
    found = bins.histogram()

    assert bins.zero == 2
    assert found is not None
    assert sum(found.counts) == 3
    held = {n: count for n, count in enumerate(found.counts) if count}
    assert held == {0: 2, len(found.counts) - 1: 1}
    assert found.edges[0] <= 1.5e-3 < found.edges[1] < 0.15 <= found.edges[-1]
    assert found.edges[4] == pytest.approx(found.edges[0] * 10)


def test_errors_beyond_all_bins_are_counted_in_the_outer_ones() -> None:
    bins = ErrorBins()
    bins.add(np.array([5e-324, 1e-30, WORST_ERROR, 1e300]))
    found = bins.histogram()

    assert found is not None
    assert (found.counts[0], found.counts[-1], sum(found.counts)) == (2, 2, 4)
    assert len(found.counts) <= MAX_BINS


def test_no_error_makes_no_histogram() -> None:
    bins = ErrorBins()
    bins.add(np.zeros(7))
    assert (bins.zero, bins.histogram()) == (7, None)


def test_the_tally_counts_every_element_once() -> None:
    tally = OutputTally("y", batch_first=True)
    tally.add(np.array([[1.0, 2.0, np.nan]]), np.array([[1.0, 2.5, np.nan]]))
    found = tally.result()
    assert found.zero_errors == 2
    assert found.errors is not None
    assert found.errors.counts == [1]
    assert found.errors.edges[0] <= 0.5 < found.errors.edges[1]


def test_peak_signal_to_noise_is_of_the_largest_value() -> None:
    tally = OutputTally("y", batch_first=True)
    tally.add(np.array([[3.0, -4.0]]), np.array([[3.0, -4.2]]))
    # The mean squared error is 0.2² / 2 = 0.02, the peak 4: 10 log10(16 / 0.02).
    assert tally.result().psnr_db == pytest.approx(10 * math.log10(800))


@pytest.mark.parametrize(("left", "right"), [(0.0, 1.0), (1.0, 1.0)])
def test_without_a_peak_or_without_an_error_there_is_no_ratio(left: float, right: float) -> None:
    tally = OutputTally("y", batch_first=True)
    tally.add(np.array([[left]]), np.array([[right]]))
    assert tally.result().psnr_db is None


def test_a_ratio_beyond_any_float_is_still_a_number() -> None:
    tally = OutputTally("y", batch_first=True)
    tally.add(np.array([[1e38, 0.0]]), np.array([[1e38, 1e-150]]))
    assert tally.result().snr_db == pytest.approx(3760)


def test_a_stray_run_does_not_squeeze_all_others_into_one_bin() -> None:
    ordered = [*(1 + n / 1000 for n in range(199)), 500.0]
    found = latency_histogram(ordered, p99=1.198)

    assert sum(found.counts) == 200
    assert max(found.counts) < 20
    assert found.edges[-1] < 2
    assert found.counts[-1] >= 1


def test_runs_that_all_take_the_same_have_one_bin() -> None:
    found = latency_histogram([2.0] * 9, p99=2.0)
    assert (found.edges, found.counts) == ([2.0, 2.0], [9])
