"""How right answers are, by labels: the engine's and the original's, on the same samples. Pure.

* ``accuracy``: share of samples whose predicted class is the label. The prediction is the output
  itself where that is one whole number for a sample, else its largest score; of equals the first.
* ``f1_macro``: the F1 of each class that occurs in the labels, averaged without weights.
* ``embedding_recall_at_1``, ``_5``, ``_10``: share of samples among whose so many nearest other
  samples, by cosine, one has the same label; of equals the first are nearest. Samples that are
  alone with their label are searched and not counted.
* ``token_error_rate``: share of places with a label whose predicted token is another; output and
  labels stand side by side, place by place.
* ``ctc_error_rate``: edit distance of the tokens to the labels, over the number of labels. Tokens
  are the largest scores of each step, repetitions merged, blanks left out.

What is not finite is never right: a score with NaN in it predicts nothing, an embedding with NaN in
it finds nothing and is not found. Padding is no label.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from workers.backends.base import Array

NOTHING = np.iinfo(np.int64).min
"""The prediction of a score that is not finite: no label is this number."""

Whole = np.ndarray[Any, np.dtype[np.int64]]


class Unfit(ValueError):
    """An output that a metric cannot judge; says why."""


def classes(output: Array, places: int) -> Whole:
    """Return the predicted class at each place; ``places`` is the number of dimensions of labels.

    Raises:
        Unfit: it is neither whole numbers nor scores over classes.
    """
    if output.dtype.kind in "iub":
        if output.ndim == places + 1 and output.shape[-1] == 1:
            output = output[..., 0]
        if output.ndim == places:
            return output.astype(np.int64)
    if output.dtype.kind == "f" and output.ndim == places + 1 and output.shape[-1] > 1:
        found = output.argmax(axis=-1).astype(np.int64)
        return np.where(np.isfinite(output).all(axis=-1), found, NOTHING)
    message = (
        f"an output of shape {list(output.shape)} and type {output.dtype} is neither a class nor"
        f" scores over classes for labels of {places} dimension{'s' * (places > 1)}"
    )
    raise Unfit(message)


def accuracy(predicted: Whole, labels: Whole) -> float:
    """Return the share of predictions that are the label; at least one is given."""
    return float((predicted == labels).mean())


def f1_macro(predicted: Whole, labels: Whole) -> float:
    """Return the mean F1 of the classes that occur in the labels."""
    scores = []
    for label in np.unique(labels):
        hits = int(((predicted == label) & (labels == label)).sum())
        named, there = int((predicted == label).sum()), int((labels == label).sum())
        scores.append(2 * hits / (named + there))
    return float(np.mean(scores))


def embedding_recall(vectors: Array, labels: Whole, nearest: int) -> tuple[float, int] | None:
    """Return the recall among so many nearest, and of how many samples it is.

    None if no label occurs twice.
    """
    values, place = np.unique(labels, return_inverse=True)
    asked = np.flatnonzero(np.bincount(place, minlength=values.size)[place] > 1)
    if not asked.size:
        return None
    finite = np.asarray(np.isfinite(vectors).all(axis=1))
    known = np.where(finite[:, None], vectors, 0).astype(np.float64)
    lengths = np.linalg.norm(known, axis=1, keepdims=True)
    units = known / np.where(lengths > 0, lengths, 1)
    hits = 0
    for row in asked:
        near = units @ units[row]
        near[row] = -np.inf
        near[~finite] = -np.inf
        best = np.argsort(-near, kind="stable")[:nearest]
        best = best[np.isfinite(near[best])]
        hits += bool(finite[row] and (labels[best] == labels[row]).any())
    return hits / asked.size, int(asked.size)


def token_errors(predicted: Whole, labels: Whole, padding: int) -> tuple[int, int]:
    """Return how many places are wrong, and how many have a label.

    Raises:
        Unfit: the two do not stand side by side.
    """
    width = predicted.shape[-1]
    if labels.shape[-1] > width and (labels[..., width:] == padding).all():
        labels = labels[..., :width]
    if predicted.shape != labels.shape:
        message = (
            f"tokens of shape {list(predicted.shape)} do not stand beside labels of shape"
            f" {list(labels.shape)}"
        )
        raise Unfit(message)
    there = labels != padding
    return int((there & (predicted != labels)).sum()), int(there.sum())


def ctc_errors(steps: Whole, labels: Whole, padding: int, blank: int) -> tuple[int, int]:
    """Return how far the tokens of all rows are from their labels, and how many labels."""
    wrong = total = 0
    for row, wanted in zip(steps, labels, strict=True):
        tokens = [token for token, _ in groupby(row.tolist()) if token != blank]
        spelt = [label for label in wanted.tolist() if label != padding]
        wrong += edit_distance(tokens, spelt)
        total += len(spelt)
    return wrong, total


def edit_distance(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how few insertions, removals and replacements make one of the other (Levenshtein)."""
    if len(left) < len(right):
        left, right = right, left
    before = list(range(len(right) + 1))
    for number, one in enumerate(left, 1):
        now = [number]
        for place, other in enumerate(right):
            now.append(min(before[place] + (one != other), before[place + 1] + 1, now[place] + 1))
        before = now
    return before[-1]
