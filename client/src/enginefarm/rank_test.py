"""Whether two series of measured runs differ, by ranks: the Mann-Whitney U test. Pure.

Runs that follow each other resemble each other, so a thousand of them tell less than a thousand
independent ones would. The variance of U is therefore widened by (1 + r) / (1 - r), where r is how
strongly the rank of a run follows that of the one before, of the series in which it does more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

MAX_CORRELATION = 0.98


@dataclass(frozen=True)
class RankTest:
    """What the ranks say of two series.

    ``p_value`` is two-sided: how likely so great a difference is if there is none. ``above`` is the
    probability that a run of the second series takes longer than one of the first, ties by half.
    """

    p_value: float
    above: float
    correlation: float


def rank_test(first: Sequence[float], second: Sequence[float]) -> RankTest:
    """Compare two series of at least two values, in the order in which they were measured."""
    ranks, ties = _ranks([*first, *second])
    one, two = len(first), len(second)
    total = one + two
    u = sum(ranks[one:]) - two * (two + 1) / 2
    above = u / (one * two)
    correlation = max(_follows(ranks[:one]), _follows(ranks[one:]))
    untied = (total + 1) - ties / (total * (total - 1))
    variance = one * two / 12 * untied * (1 + correlation) / (1 - correlation)
    if variance <= 0:
        return RankTest(1.0, above, correlation)
    # The half is for continuity: U moves in whole steps.
    distance = max(abs(u - one * two / 2) - 0.5, 0.0) / math.sqrt(variance)
    return RankTest(math.erfc(distance / math.sqrt(2)), above, correlation)


def _ranks(values: Sequence[float]) -> tuple[list[float], float]:
    """Return the rank of each value, ties sharing the middle one, and how much ties there are."""
    ranks, ties, before = [0.0] * len(values), 0.0, 0
    order = sorted(range(len(values)), key=values.__getitem__)
    for _, group in groupby(order, key=values.__getitem__):
        places = list(group)
        count = len(places)
        for place in places:
            ranks[place] = before + (count + 1) / 2
        ties += count**3 - count
        before += count
    return ranks, ties


def _follows(ranks: Sequence[float]) -> float:
    """Return the correlation of each rank with the next, from 0 up to a bound."""
    mean = sum(ranks) / len(ranks)
    power = sum((rank - mean) ** 2 for rank in ranks)
    if power == 0:
        return 0.0
    found = sum((now - mean) * (after - mean) for now, after in pairwise(ranks)) / power
    return min(max(found, 0.0), MAX_CORRELATION)
