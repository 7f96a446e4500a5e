"""How often an engine and its original choose the same class. Pure.

* An output is a score over classes where it is floating point, has at least two dimensions and more
  than one class on the last axis, and either every row of the reference is a probability
  distribution (within 0..1, sum 1) or the output is two-dimensional and its name says so (logit,
  score, prob, class, softmax, label). An embedding or an image has no best class.
* Top-1: both have the same largest class. Top-5: the original's largest class is among the engine's
  five largest; of equal values the first counts as the larger, on both sides.
* A row in which the engine gives anything that is not finite never agrees, however it is sorted.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from workers.backends.base import Array

ROW_SUM_TOLERANCE = 1e-3
SCORE_NAME = re.compile(r"logit|score|prob|class|softmax|label", re.IGNORECASE)
MIN_SCORE_RANK = 2
FIVE = 5

Vector = np.ndarray[Any, np.dtype[np.float64]]


class ScoreTally:
    """The agreement of one output, as long as every batch of it is a score."""

    def __init__(self, name: str) -> None:
        """Start with no rows."""
        self._name = name
        self._is_score = True
        self._rows = self._same = 0
        self._among_five: int | None = 0

    def add(self, reference: Array, engine: Vector) -> None:
        """Add one batch; ``engine`` is in float64."""
        self._is_score = self._is_score and is_score(self._name, reference)
        if not self._is_score:
            return
        classes = reference.shape[-1]
        wanted = reference.reshape(-1, classes).argmax(axis=-1)
        found = engine.reshape(-1, classes)
        whole = np.isfinite(found).all(axis=-1)
        ranks = _ranks(found, wanted)
        self._rows += wanted.size
        self._same += int((whole & (ranks == 0)).sum())
        if classes <= FIVE or self._among_five is None:
            self._among_five = None
        else:
            self._among_five += int((whole & (ranks < FIVE)).sum())

    @property
    def top1(self) -> float | None:
        """The share of rows with the same best class; None where there is no such thing."""
        return self._same / self._rows if self._is_score and self._rows else None

    @property
    def top5(self) -> float | None:
        """The share of rows whose best class is among the engine's five; None if it has no more."""
        if not self._is_score or not self._rows or self._among_five is None:
            return None
        return self._among_five / self._rows


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


def _ranks(values: Vector, chosen: Array) -> Array:
    """Return how many classes of each row stand before the chosen one, the largest first."""
    own = np.take_along_axis(values, chosen[:, None], axis=-1)
    before = np.arange(values.shape[-1])[None, :] < chosen[:, None]
    return np.asarray(((values > own) | ((values == own) & before)).sum(axis=-1))
