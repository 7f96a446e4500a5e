"""The interval of a median is as wide as the number of values demands, and no wider."""

from __future__ import annotations

import math
import random

import pytest

from enginefarm.median_interval import median_interval


@pytest.mark.parametrize(
    ("count", "below", "confidence"),
    [
        (8, 0, 1 - 2 / 2**8),  # the smallest and the largest
        (11, 1, 1 - 2 * (1 + 11) / 2**11),
        (15, 2, 1 - 2 * (1 + 15 + 105) / 2**15),
    ],
)
def test_so_many_values_are_left_out_on_either_side(
    count: int, below: int, confidence: float
) -> None:
    values = [float(n) for n in range(count)]
    found = median_interval(values[::-1], 0.985)
    assert found is not None
    assert (found.low, found.high) == (values[below], values[-1 - below])
    assert found.confidence == pytest.approx(confidence)


def test_too_few_values_say_nothing() -> None:
    assert median_interval([1.0] * 7, 0.99) is None
    assert median_interval([1.0] * 8, 0.99) is not None


def test_it_misses_the_median_as_seldom_as_it_says() -> None:
    rng = random.Random(5)  # noqa: S311 - no secret
    missed = 0
    for _ in range(2000):
        found = median_interval([rng.expovariate(1.0) for _ in range(15)], 0.99)
        assert found is not None
        missed += not found.low <= math.log(2) <= found.high
    assert missed <= 2000 * 0.0074 + 3 * math.sqrt(2000 * 0.0074)
