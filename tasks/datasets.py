"""Datasets: named arrays in one ``.npz``, every value looked at; and whether they fit a model.

The first dimension of every array counts the samples. An array either has its input's dimensions,
its samples lying along the first, or one more, and then each sample is a whole input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from enginefarm.errors import InvalidDataset
from enginefarm.nearest import did_you_mean
from enginefarm.profile_text import shape_text
from enginefarm.views import TensorView
from tasks.npz import Array, NpzFile, open_npz

# Conversions that lose nothing and are made when the dataset is used.
_WIDENED = {("int32", "int64"), ("int16", "int32"), ("int16", "int64"), ("float16", "float32")}


@dataclass(frozen=True)
class DatasetScan:
    """The arrays of a dataset and how many samples each of them has."""

    arrays: list[TensorView]
    samples: int


def scan_npz(
    path: Path, *, max_bytes: int = 1 << 30, max_expanded_bytes: int = 4 << 30
) -> DatasetScan:
    """Look at every value of an ``.npz`` file, holding only a piece of it at a time.

    Raises:
        TooLarge: it is above a limit, packed or unpacked.
        InvalidDataset: ``dataset_not_npz``, ``dataset_pickled``, ``dataset_name``,
            ``dataset_empty``, ``dataset_dtype``, ``dataset_non_finite``, ``dataset_ragged``.
    """
    stream, file = open_npz(path, max_bytes=max_bytes, max_expanded_bytes=max_expanded_bytes)
    with stream:
        samples = _samples(file.arrays)
        for array in file.arrays:
            _look_at_values(file, array)
        return DatasetScan([array.view() for array in file.arrays], samples)


def _samples(arrays: Sequence[Array]) -> int:
    for array in arrays:
        if not array.shape:
            raise InvalidDataset(
                f"Array {array.name[:80]!r} is a single value.",
                code="dataset_ragged",
                why="The first dimension counts the samples.",
                fix="Give a value for each sample: numpy.full(samples, value).",
                array=array.name[:80],
            )
    counts = {array.shape[0] for array in arrays}
    if len(counts) > 1:
        said = ", ".join(f"{array.name[:40]} {array.shape[0]}" for array in arrays[:8])
        raise InvalidDataset(
            f"The arrays have different numbers of samples: {said}.",
            code="dataset_ragged",
            why="The first dimension counts the samples.",
            fix="Stack the same samples, in the same order, in every array.",
        )
    empty = next((array for array in arrays if 0 in array.shape), None)
    if empty is not None:
        raise InvalidDataset(
            f"Array {empty.name[:80]!r} is empty: its shape is {list(empty.shape)}.",
            code="dataset_empty",
            fix="Save at least one sample for each input.",
            array=empty.name[:80],
        )
    return counts.pop()


def _look_at_values(file: NpzFile, array: Array) -> None:
    seen = 0
    for piece in file.pieces(array):
        if array.dtype.kind == "f":
            finite = np.isfinite(piece)
            if not finite.all():
                _refuse_value(array, seen + int(np.argmin(finite)), piece[np.argmin(finite)])
        seen += piece.size


def _refuse_value(array: Array, flat: int, value: np.floating) -> None:
    index = array.index(flat)
    raise InvalidDataset(
        f"Array {array.name[:80]!r} holds {value} at {index}.",
        code="dataset_non_finite",
        why="A single NaN or infinity makes every comparison meaningless.",
        fix=f"Remove or mend sample {index[0]}.",
        array=array.name[:80],
        index=list(index),
    )


def check_against(inputs: Sequence[TensorView], arrays: Sequence[TensorView]) -> None:
    """Check that a dataset feeds exactly the inputs of a model.

    Raises:
        InvalidDataset: ``dataset_unknown_input``, ``dataset_missing_input``, ``dataset_dtype``,
            ``dataset_rank``, ``dataset_shape``.
    """
    known = {row.name: row for row in inputs}
    for array in arrays:
        if array.name not in known:
            raise InvalidDataset(
                f"The dataset has an array {array.name[:80]!r}; the model has no such input.",
                code="dataset_unknown_input",
                fix=did_you_mean(array.name, known) if known else "The model takes no inputs.",
                array=array.name[:80],
            )
        _check_fit(known[array.name], array)
    missing = sorted(set(known) - {array.name for array in arrays})
    if missing:
        raise InvalidDataset(
            f"The dataset lacks the input{'s' * (len(missing) > 1)} {', '.join(missing)}.",
            code="dataset_missing_input",
            fix="Save one array for each input, under the input's name.",
            missing=list(missing),
        )


def _check_fit(row: TensorView, array: TensorView) -> None:
    if array.dtype != row.dtype and (array.dtype, row.dtype) not in _WIDENED:
        raise InvalidDataset(
            f"Array {row.name!r} is {array.dtype}; the model's input is {row.dtype}.",
            code="dataset_dtype",
            why="A conversion could hide a missing scale, such as 0..255 for 0..1.",
            fix=f"Convert it yourself: array.astype('{row.dtype}').",
            array=row.name,
        )
    whole = len(array.shape) == len(row.shape) + 1
    if not whole and (len(array.shape) != len(row.shape) or not row.shape):
        raise InvalidDataset(
            f"Array {row.name!r} has {len(array.shape)} dimensions; the input has "
            f"{len(row.shape)}.",
            code="dataset_rank",
            why="Samples lie along the input's first dimension, or along one more before it.",
            fix=f"The input is {shape_text(row.shape)}: use numpy.concatenate over samples of that "
            "shape, or numpy.stack.",
            array=row.name,
        )
    skipped = 0 if whole else 1
    for axis, want in enumerate(row.shape[skipped:], 1):
        have = array.shape[axis]
        if isinstance(want, int) and have != want:
            raise InvalidDataset(
                f"Dimension {axis} of array {row.name!r} is {have}; the model needs {want}.",
                code="dataset_shape",
                why=f"The model's input is {shape_text(row.shape)}.",
                fix="Save the samples in the shape of the model's input.",
                array=row.name,
            )
