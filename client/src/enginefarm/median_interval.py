"""Between which values the median of a distribution lies, from a few values of it. Pure.

Nothing is assumed of the distribution: of ``n`` values the number below its median is binomial, so
the ``k``-th smallest and the ``k``-th largest enclose it with a probability that follows from ``n``
and ``k`` alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """Where the median lies, with what probability."""

    low: float
    high: float
    confidence: float


def median_interval(values: Sequence[float], confidence: float) -> Interval | None:
    """Return the narrowest such interval with at least this probability; None: too few values."""
    ordered, count = sorted(values), len(values)
    best: Interval | None = None
    outside = 0.0
    for below in range(count // 2):
        outside += 2 * math.comb(count, below) / 2**count
        if 1 - outside < confidence:
            break
        best = Interval(ordered[below], ordered[count - 1 - below], 1 - outside)
    return best
