"""What is seen of one input while its samples stream by: sums and lengths, never the samples."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from workers.backends.base import Array

_FEW_VALUES = 64
_LEAST_FOR_NOISE = 8
_NOISE_SPREAD = 3.0
_NOISE_CORRELATION = 0.05
_MOST_SUMMED = 1e140
"""Values of doubles beyond it are summed up as this: their squares are no numbers any more."""
_MOST_FOR_ROWS = 2
"""Whole numbers of more dimensions are pictures, not rows of tokens."""
_PADDING = 2
"""So many equal values at an end of a row of tokens are padding."""


@dataclass
class Seen:
    """What was seen of one input."""

    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    squares: float = 0.0
    elements: int = 0
    means: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    neighbours: list[float] = field(default_factory=list)
    lengths: list[float] = field(default_factory=list)

    def add(self, array: Array) -> None:
        """Add one sample, all of whose values are finite."""
        values = array.astype(np.float64)
        if not values.size:
            return
        self.low, self.high = (
            min(self.low, float(values.min())),
            max(self.high, float(values.max())),
        )
        values = np.clip(values, -_MOST_SUMMED, _MOST_SUMMED)
        self.total += float(values.sum())
        self.squares += float(np.square(values).sum())
        self.elements += values.size
        self.means.append(float(values.mean()))
        self.sizes.append(values.size)
        self.lengths.append(length_of(array))
        found = _neighbours(values)
        if found is not None:
            self.neighbours.append(found)

    @property
    def mean(self) -> float:
        """The mean of all values."""
        return self.total / self.elements if self.elements else 0.0

    @property
    def std(self) -> float:
        """The standard deviation of all values."""
        if not self.elements:
            return 0.0
        return math.sqrt(max(0.0, self.squares / self.elements - self.mean**2))

    @property
    def reach(self) -> float:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high)) if self.elements else 0.0

    @property
    def length(self) -> float:
        """How long a sample usually is: the median."""
        return median(self.lengths) if self.lengths else 0.0

    @property
    def like_noise(self) -> bool:
        """Whether neighbours are unrelated, and samples differ no more than chance has it.

        Means of independent values scatter by their deviation over the root of their number; those
        of images, texts and sounds scatter many times as much.
        """
        if len(self.means) < _LEAST_FOR_NOISE or not self.neighbours or self.std == 0:
            return False
        expected = self.std / math.sqrt(float(np.mean(self.sizes)))
        scattered = float(np.std(self.means)) / expected
        related = abs(float(np.mean(self.neighbours)))
        return scattered < _NOISE_SPREAD and related < _NOISE_CORRELATION


def _neighbours(values: Array) -> float | None:
    """Return the correlation of values with those beside them; None where there are too few."""
    if values.ndim == 0 or values.shape[-1] < 2 or values.size < _FEW_VALUES:  # noqa: PLR2004
        return None
    left, right = values[..., :-1].ravel(), values[..., 1:].ravel()
    left, right = left - left.mean(), right - right.mean()
    power = math.sqrt(float(left @ left)) * math.sqrt(float(right @ right))
    return float(left @ right) / power if power > 0 else None


def length_of(array: Array) -> float:
    """Return how long a sample is: its last dimension, of rows of tokens without their padding.

    Of a mask, whose values are 0 and 1, those that are 1 are counted; of several rows it is the
    mean.
    """
    if array.ndim == 0:
        return 1.0
    if array.dtype.kind not in "iub" or array.ndim > _MOST_FOR_ROWS:
        return float(array.shape[-1])
    rows = array.reshape(-1, array.shape[-1])
    if rows.min() >= 0 and rows.max() <= 1:
        return float(np.count_nonzero(rows)) / len(rows)
    return float(np.mean([_without_padding(row) for row in rows]))


def _without_padding(row: Array) -> int:
    other = np.flatnonzero(row != row[-1])
    if not other.size:
        return len(row)
    behind = len(row) - 1 - int(other[-1])
    before = int(np.flatnonzero(row != row[0])[0])
    return len(row) - sum(run for run in (behind, before) if run >= _PADDING)
