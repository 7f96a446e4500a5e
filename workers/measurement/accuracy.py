"""An engine's outputs against the original model's, added up batch by batch. Pure.

Rules that decide what a number means:

* Everything is compared in float64, whatever the types were.
* Where both sides are not finite and equal (NaN with NaN, inf with the same inf) they agree and are
  left out of the errors; NaN of the original is counted, for it meets no gate. Where only one side
  is finite, or they differ, the error counts as the largest fp32 number (and no error counts as
  more): an engine that gives NaN must fail any gate, not slip past it.
* Cosine is that of all samples as one vector, as the signal-to-noise ratio is; the worst sample's
  stands beside it. Vectors that are both zero have none; if one of them is zero it is 0.
* A sample of which no value of the reference rises clearly above what fp32 rounds away is noted:
  its own cosine says how two runtimes round, not whether the engine is right.
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
# Values inside a network are near one, so what fp32 rounds away is near its epsilon, wherever the
# output lies. A thousand times that leaves three digits of signal.
FAINT_REFERENCE = 1000 * float(np.finfo(np.float32).eps)
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
        self._whole = Angle()
        self._worst: float | None = None
        self._reference_max = 0.0
        self._zeros = self._samples = self._faint = 0
        self._rows = self._same_top = 0
        self._is_score = True
        self._exact = True
        self._nonfinite = [0, 0]
        self._nan = 0

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
        self._nan += int(np.isnan(left).sum())
        self._add_top1(reference, left, right)
        agreed = same & ~ok_left
        bad = ~(ok_left & ok_right) & ~agreed
        self._add_errors(left, right, bad, agreed)
        signal = np.where(ok_left, left, 0.0)
        self._zeros += int((left == 0.0).sum())
        self._add_samples(signal, np.where(agreed, 0.0, _bounded(right)))

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

    def _add_samples(self, left: Vector, right: Vector) -> None:
        rows = left.shape[0] if self._batch_first and left.ndim > 0 else 1
        if left.size == 0:
            return
        self._whole.add(left.ravel(), right.ravel())
        for one, other in zip(left.reshape(rows, -1), right.reshape(rows, -1), strict=True):
            strongest = float(np.abs(one).max())
            self._reference_max = max(self._reference_max, strongest)
            self._samples += 1
            self._faint += strongest < FAINT_REFERENCE
            found = cosine(one, other)
            if found is not None:
                self._worst = found if self._worst is None else min(self._worst, found)

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
            cosine=self._whole.cosine(),
            cosine_worst=self._worst,
            snr_db=snr,
            exact=self._exact,
            top1_agreement=self._same_top / self._rows if self._is_score and self._rows else None,
            nonfinite_engine=self._nonfinite[1],
            nonfinite_reference=self._nonfinite[0],
            nan_reference=self._nan,
            elements=self._elements,
            reference_max_abs=self._reference_max if self._samples else None,
            reference_zero_share=self._zeros / self._elements if self._elements else None,
        )

    def notes(self) -> list[str]:
        """Return what a person should know before judging the numbers."""
        found = []
        if self._nan:
            found.append(
                f"{self.name}: the original gives NaN in {self._nan} of {self._elements} values;"
                " they are left out of every number, and no gate on accuracy is met"
            )
        if not self._faint or self._exact:
            return found
        note = (
            f"{self.name}: in {self._faint} of {self._samples} samples no value of the reference is"
            f" above {FAINT_REFERENCE:.1e}, so that what fp32 rounds away shows in cosine_worst and"
            " may show in cosine, snr_db and the relative errors; look at max_abs_error, or measure"
            " on data for which the output is not near zero"
        )
        return [*found, note]


class Angle:
    """The cosine of two vectors that come piece by piece."""

    def __init__(self) -> None:
        """Start with vectors of no length."""
        self._sizes = (0.0, 0.0)
        # In units of the sizes, so that squares neither vanish nor overflow.
        self._product = 0.0
        self._powers = (0.0, 0.0)
        self._equal = True

    def add(self, left: Vector, right: Vector) -> None:
        """Append a piece, which is not empty, to each of the vectors."""
        self._equal = self._equal and np.array_equal(left, right)
        before = self._sizes
        self._sizes = (
            max(before[0], float(np.abs(left).max())),
            max(before[1], float(np.abs(right).max())),
        )
        units = [size or 1.0 for size in self._sizes]
        kept = [old / unit for old, unit in zip(before, units, strict=True)]
        left, right = left / units[0], right / units[1]
        self._product = self._product * kept[0] * kept[1] + float(left @ right)
        self._powers = (
            self._powers[0] * kept[0] ** 2 + float(left @ left),
            self._powers[1] * kept[1] ** 2 + float(right @ right),
        )

    def cosine(self) -> float | None:
        """Return the cosine; None if both vectors are zero, 0 if one is."""
        if self._sizes == (0.0, 0.0):
            return None
        if 0.0 in self._sizes:
            return 0.0
        if self._equal:
            return 1.0
        found = self._product / math.sqrt(self._powers[0] * self._powers[1])
        return max(-1.0, min(1.0, found))


def cosine(left: Vector, right: Vector) -> float | None:
    """Return the cosine of two vectors; None if both are zero, 0 if one is."""
    angle = Angle()
    angle.add(left, right)
    return angle.cosine()


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
