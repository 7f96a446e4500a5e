"""Histograms whose size does not grow with what is counted. Pure.

Errors lie anywhere from rounding to nonsense, so four of their bins make a decade; the bins of
latencies are equally wide, and what is slower than nearly all others shares the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from enginefarm.report import Histogram
from workers.backends.base import Array

BINS_IN_DECADE = 4
LOWEST, HIGHEST = -14, 6
LATENCY_BINS = 48
DIGITS = 6

Vector = np.ndarray[Any, np.dtype[np.float64]]


class ErrorBins:
    """How many elements have which error; decades from 1e-14 to 1e6, the ends open."""

    def __init__(self) -> None:
        """Start with nothing counted."""
        self.zero = 0
        self._counts = np.zeros((HIGHEST - LOWEST) * BINS_IN_DECADE, dtype=np.int64)

    def add(self, errors: Vector) -> None:
        """Count errors that are finite and not negative."""
        some = errors[errors > 0]
        self.zero += int(errors.size - some.size)
        if some.size:
            place = np.floor((np.log10(some) - LOWEST) * BINS_IN_DECADE).astype(np.int64)
            place = np.clip(place, 0, self._counts.size - 1)
            self._counts += np.bincount(place, minlength=self._counts.size)

    def histogram(self) -> Histogram | None:
        """Return the bins from the first to the last that holds anything; None if none does."""
        held = np.flatnonzero(self._counts)
        if not held.size:
            return None
        first, last = int(held[0]), int(held[-1])
        edges = [10.0 ** (LOWEST + n / BINS_IN_DECADE) for n in range(first, last + 2)]
        counts: Array = self._counts[first : last + 1]
        return Histogram(edges=edges, counts=[int(count) for count in counts])


def latency_histogram(ordered_ms: Sequence[float], p99: float) -> Histogram:
    """Return the distribution of an ascending list of latencies, in ms.

    The bins end a quarter beyond P99: a single stray run would else leave one bin for all others.
    """
    low, high = ordered_ms[0], ordered_ms[-1]
    top = min(high, p99 + (p99 - low) / 4)
    if top <= low:
        return Histogram(edges=[low, high], counts=[len(ordered_ms)])
    edges = np.linspace(low, top, LATENCY_BINS + 1)
    capped = np.minimum(np.asarray(ordered_ms, dtype=np.float64), top)
    counts, _ = np.histogram(capped, bins=edges)
    rounded = [round(float(edge), DIGITS) for edge in edges]
    return Histogram(edges=sorted(rounded), counts=[int(count) for count in counts])
