"""Whether two series of runs differ, and how sure that is."""

from __future__ import annotations

import itertools
import random

import pytest

from enginefarm.rank_test import rank_test


def test_the_textbook_example() -> None:
    # U of the second is 9 of 25 pairs: sigma is sqrt(25 * 11 / 12), the half is for continuity.
    first, second = [1.1, 3.3, 4.4, 6.6, 9.9], [1.0, 2.0, 4.0, 6.0, 8.0]
    pairs = sum((b > a) + 0.5 * (b == a) for a, b in itertools.product(first, second))
    found = rank_test(first, second)
    assert found.above == pytest.approx(pairs / 25)
    assert found.p_value > 0.3


def test_a_known_p_value() -> None:
    # All of five above all of five, unmixed: U = 25, z = (12.5 - 0.5) / sqrt(25 * 11 / 12) = 2.507;
    # the order within each series makes its runs independent (no rank follows the one before).
    found = rank_test([3, 1, 5, 2, 4], [8, 6, 10, 7, 9])
    assert found.above == 1.0
    assert found.correlation == 0.0
    assert found.p_value == pytest.approx(0.01219, abs=1e-4)


def test_equal_values_tell_of_no_difference() -> None:
    found = rank_test([2.0] * 30, [2.0] * 30)
    assert (found.p_value, found.above) == (1.0, 0.5)


def test_two_series_of_one_distribution_seldom_look_different() -> None:
    rng = random.Random(7)  # noqa: S311 - no secret
    found = [
        rank_test([rng.gauss(5, 1) for _ in range(100)], [rng.gauss(5, 1) for _ in range(100)])
        for _ in range(200)
    ]
    assert sum(each.p_value < 0.05 for each in found) <= 18


def test_runs_that_follow_each_other_tell_less_than_independent_ones() -> None:
    """Slow waves make two halves of one measurement differ; that is not a difference of engines."""
    rng = random.Random(3)  # noqa: S311 - no secret

    def wave(count: int) -> list[float]:
        value, made = 0.0, []
        for _ in range(count):
            value = 0.95 * value + rng.gauss(0, 1)
            made.append(value)
        return made

    found = [rank_test(wave(300), wave(300)) for _ in range(100)]
    assert sum(each.p_value < 0.01 for each in found) <= 6
    assert all(each.correlation > 0.7 for each in found)


def test_it_is_the_same_from_both_sides() -> None:
    rng = random.Random(1)  # noqa: S311 - no secret
    a, b = ([rng.gauss(m, 1) for _ in range(50)] for m in (0, 0.3))
    one, other = rank_test(a, b), rank_test(b, a)
    assert one.p_value == pytest.approx(other.p_value)
    assert one.above == pytest.approx(1 - other.above)
