"""An engine's outputs against the original model's, added up batch by batch. Pure.

Rules that decide what a number means:

* Everything is compared in float64, whatever the types were.
* Where both sides are not finite and equal (NaN with NaN, inf with the same inf) they agree and are
  left out of the errors. Where only one side is finite, or they differ, the error counts as the
  largest fp32 number (and no error counts as more): an engine that gives NaN must fail any gate,
  not slip past it.
* Cosine is that of the worst sample. A sample whose vectors are both zero has none; if one of them
  is zero it is 0.
* Top-1 agreement exists only where the output is a score over classes: floating point, at least two
  dimensions, more than one class on the last axis, and either every row of the reference is a
  probability distribution (within 0..1, sum 1) or the output is two-dimensional and its name says
  so (logit, score, prob, class, softmax, label). An embedding or an image has no top-1.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from enginefarm.report import OutputAccuracy
from workers.backends.base import Array

SMALL_REFERENCE = 1e-6
WORST_ERROR = float(np.finfo(np.float32).max)
ROW_SUM_TOLERANCE = 1e-3
SCORE_NAME = re.compile(r"logit|score|prob|class|softmax|label", re.IGNORECASE)
MIN_SCORE_RANK = 2

Vector = np.ndarray[Any, np.dtype[np.float64]]


class OutputTally:
    """The running sums of one output."""

    def __init__(self, name: str, *, batch_first: bool) -> None:
        """Start empty; ``batch_first`` says that axis 0 counts samples."""
        self.name = name
        self._batch_first = batch_first
        self._dtypes = ("", "")
        self._elements = self._rel_elements = 0
        self._abs_sum = self._rel_sum = self._error_power = self._power = 0.0
        self._abs_max = self._rel_max = 0.0
        self._cosine: float | None = None
        self._rows = self._same_top = 0
        self._is_score = True
        self._exact = True
        self._nonfinite = [0, 0]

    def add(self, reference: Array, engine: Array) -> None:
        """Add one batch.

        Raises:
            ValueError: the shapes differ.
        """
        if reference.shape != engine.shape:
            message = f"{self.name}: {engine.shape} instead of {reference.shape}"
            raise ValueError(message)
        self._dtypes = (str(reference.dtype), str(engine.dtype))
        left, right = reference.astype(np.float64), engine.astype(np.float64)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        self._exact = self._exact and bool(same.all())
        ok_left, ok_right = np.isfinite(left), np.isfinite(right)
        self._nonfinite[0] += int((~ok_left).sum())
        self._nonfinite[1] += int((~ok_right).sum())
        self._add_top1(reference, left, right)
        agreed = same & ~ok_left
        bad = ~(ok_left & ok_right) & ~agreed
        self._add_errors(left, right, bad, agreed)
        self._add_cosines(np.where(ok_left, left, 0.0), np.where(agreed, 0.0, _bounded(right)))

    def _add_errors(self, left: Vector, right: Vector, bad: Array, agreed: Array) -> None:
        with np.errstate(invalid="ignore"):
            error = np.abs(left - right)
        error = np.where(agreed, 0.0, np.where(bad, WORST_ERROR, np.minimum(error, WORST_ERROR)))
        finite_left = np.clip(np.where(np.isfinite(left), left, 0.0), -WORST_ERROR, WORST_ERROR)
        self._elements += error.size
        if error.size == 0:
            return
        self._abs_max = max(self._abs_max, float(error.max()))
        self._abs_sum += float(error.sum())
        self._error_power += float(np.square(error).sum())
        self._power += float(np.square(finite_left).sum())
        relevant = (np.abs(finite_left) > SMALL_REFERENCE) & ~agreed
        if relevant.any():
            relative = error[relevant] / np.abs(finite_left[relevant])
            self._rel_max = max(self._rel_max, float(relative.max()))
            self._rel_sum += float(relative.sum())
            self._rel_elements += int(relevant.sum())

    def _add_cosines(self, left: Vector, right: Vector) -> None:
        rows = left.shape[0] if self._batch_first and left.ndim > 0 else 1
        if left.size == 0:
            return
        for one, other in zip(left.reshape(rows, -1), right.reshape(rows, -1), strict=True):
            found = cosine(one, other)
            if found is not None:
                self._cosine = found if self._cosine is None else min(self._cosine, found)

    def _add_top1(self, original: Array, left: Vector, right: Vector) -> None:
        self._is_score = self._is_score and is_score(self.name, original)
        if self._is_score:
            same = left.argmax(axis=-1) == right.argmax(axis=-1)
            # argmax of a row with NaN is that NaN: such a row never agrees by luck.
            same &= np.isfinite(right).all(axis=-1)
            self._rows += same.size
            self._same_top += int(same.sum())

    def result(self) -> OutputAccuracy:
        """Return what was found; numbers that do not exist are None."""
        count = max(self._elements, 1)
        snr = None
        if self._error_power > 0 and self._power > 0:
            snr = 10 * math.log10(self._power / self._error_power)
        return OutputAccuracy(
            output=self.name,
            dtype_reference=self._dtypes[0],
            dtype_engine=self._dtypes[1],
            max_abs_error=self._abs_max,
            mean_abs_error=self._abs_sum / count,
            max_rel_error=self._rel_max if self._rel_elements else None,
            mean_rel_error=self._rel_sum / self._rel_elements if self._rel_elements else None,
            cosine=self._cosine,
            snr_db=snr,
            exact=self._exact,
            top1_agreement=self._same_top / self._rows if self._is_score and self._rows else None,
            nonfinite_engine=self._nonfinite[1],
            nonfinite_reference=self._nonfinite[0],
        )


def cosine(left: Vector, right: Vector) -> float | None:
    """Return the cosine of two vectors; None if both are zero, 0 if one is."""
    size_left, size_right = float(np.abs(left).max()), float(np.abs(right).max())
    if size_left == 0.0 and size_right == 0.0:
        return None
    if size_left == 0.0 or size_right == 0.0:
        return 0.0
    left, right = (
        left / size_left,
        right / size_right,
    )  # so that squares neither vanish nor overflow
    if np.array_equal(left, right):
        return 1.0
    found = float(left @ right) / math.sqrt(float(left @ left) * float(right @ right))
    return max(-1.0, min(1.0, found))


def is_score(name: str, reference: Array) -> bool:
    """Tell whether an output is a score over classes, by the rule at the top of this file."""
    shaped = reference.ndim >= MIN_SCORE_RANK and reference.shape[-1] > 1 and reference.size > 0
    if not shaped or reference.dtype.kind != "f" or not np.isfinite(reference).all():
        return False
    rows = reference.astype(np.float64)
    sums = rows.sum(axis=-1)
    if rows.min() >= 0 and rows.max() <= 1 and bool(np.all(abs(sums - 1) < ROW_SUM_TOLERANCE)):
        return True
    return reference.ndim == MIN_SCORE_RANK and SCORE_NAME.search(name) is not None


def _bounded(values: Vector) -> Vector:
    return np.nan_to_num(values, nan=WORST_ERROR, posinf=WORST_ERROR, neginf=-WORST_ERROR)
