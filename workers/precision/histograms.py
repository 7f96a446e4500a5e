"""Histograms of tensors that bounded memory holds, whatever comes in whatever order.

ONNX Runtime's own take the width of their bins from the first sample: where that is next to silence
and a later one is loud, there would be billions of bins. They also end with an error where all
values of a tensor are the same, or too small to be told apart, and forget values that are smaller
than the smallest of the first sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnxruntime.quantization.calibrate import HistogramCollector

from workers.backends.base import Array

BINS = {"percentile": 2048, "entropy": 128}
"""How many bins the first sample gets, as ONNX Runtime has it."""
GROWTH = 64
"""So many times as many bins there may be at most; then they are made wider."""
TINY = 1e-30
"""Where no value is larger there is nothing to tell apart."""


class Histograms(HistogramCollector):  # type: ignore[misc]
    """Takes the values of tensors, sample by sample, and gives their ranges as its base does."""

    def __init__(self, method: str, percentile: float | None) -> None:
        """Start with nothing seen."""
        super().__init__(
            method=method,
            symmetric=True,
            num_bins=BINS[method],
            num_quantized_bins=128,
            percentile=percentile,
            scenario="same",
        )

    def collect_absolute_value(self, name_to_arr: Mapping[str, Sequence[Array]]) -> None:
        """Add the sizes of values; what is not finite is in no range."""
        for name, arrays in name_to_arr.items():
            values = _finite(arrays)
            sizes = np.abs(values)
            top = max(float(sizes.max(initial=0)), TINY)
            counts, reach, low, high = self._known(name, top)
            if top > reach:
                counts, reach = grown(counts, reach, top, BINS[self.method])
            counts = counts + np.histogram(sizes, len(counts), range=(0.0, reach))[0]
            self.histogram_dict[name] = (
                counts,
                np.linspace(0.0, reach, len(counts) + 1, dtype=np.float32),
                np.float32(min(low, float(values.min(initial=0)))),
                np.float32(max(high, float(values.max(initial=0)))),
            )

    def _known(self, name: str, top: float) -> tuple[Array, float, float, float]:
        """Return the counts of a tensor, what they reach to, and its smallest and largest value."""
        if name not in self.histogram_dict:
            return np.zeros(BINS[self.method], np.int64), top, 0.0, 0.0
        counts, edges, low, high = self.histogram_dict[name]
        return counts, float(edges[-1]), float(low), float(high)

    def collect_value(self, name_to_arr: Mapping[str, Sequence[Array]]) -> None:
        """Add values with their signs; those that are too small to be told apart are zeros."""
        fit = {}
        for name, arrays in name_to_arr.items():
            values = _finite(arrays)
            fit[name] = np.zeros_like(values) if _largest(values) <= TINY else values
        super().collect_value(fit)

    def merge_histogram(
        self,
        old_histogram: Any,  # noqa: ANN401 - the tool's own form
        data_arr: Array,
        new_min: Any,  # noqa: ANN401 - as above
        new_max: Any,  # noqa: ANN401 - as above
        new_threshold: Any,  # noqa: ANN401 - as above
    ) -> Any:  # noqa: ANN401 - as above
        """Add values; where there would be too many bins, widen them first."""
        counts, edges, low, high, reach = old_histogram
        if reach > 0 and new_threshold > reach * GROWTH * BINS[self.method] / len(counts):
            middles = (edges[:-1] + edges[1:]) / 2
            limits = (-float(new_threshold), float(new_threshold))
            counts, edges = np.histogram(middles, BINS[self.method], limits, weights=counts)
            old_histogram = (counts.astype(np.int64), edges, low, high, new_threshold)
        return super().merge_histogram(old_histogram, data_arr, new_min, new_max, new_threshold)


def grown(counts: Array, reach: float, top: float, bins: int) -> tuple[Array, float]:
    """Return counts that go on to ``top``, and how far: bins of one width, or as few as ``bins``.

    All are of the same width before and after; of what was counted only its bin is known.
    """
    wanted = int(np.ceil(len(counts) * top / reach)) if top / reach < GROWTH else GROWTH * bins + 1
    if wanted <= GROWTH * bins:
        more = np.zeros(wanted - len(counts), counts.dtype)
        return np.concatenate([counts, more]), max(top, reach * wanted / len(counts))
    middles = (np.arange(len(counts)) + 0.5) * (reach / len(counts))
    found = np.histogram(middles, bins, (0.0, top), weights=counts)[0]
    return found.astype(counts.dtype), top


def _finite(arrays: Sequence[Array]) -> Array:
    """Return all finite values in a row; where there is none, a zero: ranges are of something."""
    values = np.concatenate([np.ravel(array) for array in arrays])
    fine = values[np.isfinite(values)]
    return fine if fine.size else np.zeros(1, values.dtype)


def _largest(values: Array) -> float:
    return float(np.abs(values).max(initial=0))
