"""An engine's outputs against the original model's, added up batch by batch. Pure.

Rules that decide what a number means:

* Everything is compared in float64, whatever the types were.
* Where both sides are not finite and equal (NaN with NaN, inf with the same inf) they agree and are
  left out of the errors; NaN of the original is counted, for it meets no gate. Where only one side
  is finite, or they differ, the error counts as the largest fp32 number (and no error counts as
  more): an engine that gives NaN must fail any gate, not slip past it.
* Cosine is that of all samples as one vector, as the signal-to-noise ratio is; the worst sample's
  stands beside it. Vectors that are both zero have none; if one of them is zero it is 0. It is 0,
  too, where only one side is finite or they differ in that: the size of an error is lost in it.
* A sample of which no value of the reference rises clearly above what fp32 rounds away is noted:
  its own cosine says how two runtimes round, not whether the engine is right.
* The peak of the peak signal-to-noise ratio is the largest finite absolute value of the reference.
* Whether an output is a score, and what agrees then: ``workers.measurement.scores``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from enginefarm.report import OutputAccuracy
from workers.backends.base import Array
from workers.measurement.histograms import ErrorBins
from workers.measurement.scores import ScoreTally
from workers.measurement.worst import WorstSamples

SMALL_REFERENCE = 1e-6
# Values inside a network are near one, so what fp32 rounds away is near its epsilon, wherever the
# output lies. A thousand times that leaves three digits of signal.
FAINT_REFERENCE = 1000 * float(np.finfo(np.float32).eps)
WORST_ERROR = float(np.finfo(np.float32).max)

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
        self._scores = ScoreTally(name)
        self._bins = ErrorBins()
        self._furthest = WorstSamples()
        self._exact = True
        self._nonfinite = [0, 0]
        self._nan = self._added = 0
        self._lost = False

    def add(self, reference: Array, engine: Array, *, first: int = 0, count: int = 0) -> None:
        """Add one batch of ``count`` samples, the ``first`` of them by its place in the data.

        Without a count each row is a sample.

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
        self._scores.add(reference, right)
        self._added += int((~ok_right & ~same & ~np.isnan(left)).sum())
        agreed = same & ~ok_left
        lost = ~(ok_left & ok_right) & ~agreed
        error = _errors(left, right, lost, agreed)
        self._add_errors(left, error, agreed)
        signal = np.where(ok_left, left, 0.0)
        self._zeros += int((left == 0.0).sum())
        bounded = np.where(agreed, 0.0, _bounded(right))
        self._add_samples(signal, bounded, (error, lost), (first, count))

    def _add_errors(self, left: Vector, error: Vector, agreed: Array) -> None:
        finite_left = np.clip(np.where(np.isfinite(left), left, 0.0), -WORST_ERROR, WORST_ERROR)
        self._elements += error.size
        if error.size == 0:
            return
        self._bins.add(error)
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

    def _add_samples(
        self, left: Vector, right: Vector, wrong: tuple[Vector, Array], place: tuple[int, int]
    ) -> None:
        error, lost = wrong
        rows = left.shape[0] if self._batch_first and left.ndim > 0 else 1
        if left.size == 0:
            return
        self._whole.add(left.ravel(), right.ravel())
        first, count = place[0], place[1] or rows
        largest = error.reshape(rows, -1).max(axis=1)
        without = np.asarray(lost.reshape(rows, -1).any(axis=1))
        self._lost = self._lost or bool(without.any())
        pairs = zip(left.reshape(rows, -1), right.reshape(rows, -1), strict=True)
        for row, (one, other) in enumerate(pairs):
            strongest = float(np.abs(one).max())
            self._reference_max = max(self._reference_max, strongest)
            self._samples += 1
            self._faint += strongest < FAINT_REFERENCE
            found = 0.0 if without[row] else cosine(one, other)
            if found is not None:
                self._worst = found if self._worst is None else min(self._worst, found)
            alone = rows == count
            sample, together = (first + row, 1) if alone else (first, count)
            self._furthest.add(sample, together, float(largest[row]), found)

    def result(self) -> OutputAccuracy:
        """Return what was found; numbers that do not exist are None."""
        count = max(self._elements, 1)
        return OutputAccuracy(
            output=self.name,
            dtype_reference=self._dtypes[0],
            dtype_engine=self._dtypes[1],
            max_abs_error=self._abs_max,
            mean_abs_error=self._abs_sum / count,
            max_rel_error=self._rel_max if self._rel_elements else None,
            mean_rel_error=self._rel_sum / self._rel_elements if self._rel_elements else None,
            cosine=0.0 if self._lost else self._whole.cosine(),
            cosine_worst=self._worst,
            snr_db=_decibels(self._power, self._error_power),
            psnr_db=_decibels(self._peak_power(), self._error_power / count),
            exact=self._exact,
            top1_agreement=self._scores.top1,
            top5_agreement=self._scores.top5,
            nonfinite_engine=self._nonfinite[1],
            nonfinite_reference=self._nonfinite[0],
            nan_reference=self._nan,
            nonfinite_added=self._added,
            elements=self._elements,
            reference_max_abs=self._reference_max if self._samples else None,
            reference_zero_share=self._zeros / self._elements if self._elements else None,
            worst=self._furthest.rows(),
            zero_errors=self._bins.zero,
            errors=self._bins.histogram(),
        )

    def _peak_power(self) -> float:
        return min(self._reference_max, WORST_ERROR) ** 2

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


def _errors(left: Vector, right: Vector, bad: Array, agreed: Array) -> Vector:
    """Return the error of each element, by the rules at the top of this file."""
    with np.errstate(invalid="ignore"):
        error = np.abs(left - right)
    capped = np.where(bad, WORST_ERROR, np.minimum(error, WORST_ERROR))
    return np.asarray(np.where(agreed, 0.0, capped), dtype=np.float64)


def _decibels(signal: float, noise: float) -> float | None:
    # A difference of logarithms: the quotient itself may be too large for a float.
    known = signal > 0 and noise > 0
    return 10 * (math.log10(signal) - math.log10(noise)) if known else None


def _bounded(values: Vector) -> Vector:
    return np.nan_to_num(values, nan=WORST_ERROR, posinf=WORST_ERROR, neginf=-WORST_ERROR)
