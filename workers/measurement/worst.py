"""The samples in which an output is furthest from the original's: what to look at first. Pure.

Two rankings, since they tell of different faults: the largest error of any element, and the
smallest cosine. What is exactly equal is in neither.
"""

from __future__ import annotations

import heapq
from itertools import count

from enginefarm.report import MAX_WORST, WorstSample

KEPT_OF_EACH = MAX_WORST // 2


class WorstSamples:
    """Keeps the few worst of any number of samples."""

    def __init__(self) -> None:
        """Start with none."""
        self._number = count()
        # The least bad of those that are kept comes first: it is the next to go.
        self._by_error: list[tuple[float, int, WorstSample]] = []
        self._by_cosine: list[tuple[float, int, WorstSample]] = []

    def add(self, sample: int, together: int, max_abs_error: float, cosine: float | None) -> None:
        """Look at one sample, or at several that an output does not tell apart."""
        if max_abs_error == 0:
            return
        told = sample, together, max_abs_error, cosine
        self._keep(self._by_error, max_abs_error, told)
        if cosine is not None:
            self._keep(self._by_cosine, -cosine, told)

    def rows(self) -> list[WorstSample]:
        """Return what was kept, the largest error first; of equals the earlier sample."""
        kept = {(row.sample, row.max_abs_error, row.cosine): row for row in self._kept()}
        return sorted(kept.values(), key=lambda row: (-row.max_abs_error, row.sample))

    def _kept(self) -> list[WorstSample]:
        return [row for heap in (self._by_error, self._by_cosine) for _, _, row in heap]

    def _keep(
        self,
        heap: list[tuple[float, int, WorstSample]],
        badness: float,
        told: tuple[int, int, float, float | None],
    ) -> None:
        if len(heap) == KEPT_OF_EACH and badness <= heap[0][0]:
            return
        sample, together, error, cosine = told
        row = WorstSample(sample=sample, together=together, max_abs_error=error, cosine=cosine)
        # Later samples have smaller numbers, so that of equals the earlier stays.
        heapq.heappush(heap, (badness, -next(self._number), row))
        if len(heap) > KEPT_OF_EACH:
            heapq.heappop(heap)
