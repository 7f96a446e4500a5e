"""Datasets: named arrays in one ``.npz``, every value looked at, a piece at a time.

The first dimension of every array counts the samples. Samples of several sizes lie in arrays of
their own, as :mod:`enginefarm.sizes` has it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np

from enginefarm.errors import InvalidDataset
from enginefarm.sizes import by_size
from intake.findings import DatasetFound
from intake.npz import Array, NpzFile, not_npz, open_npz

_SURROGATES = 0xD800, 0xDFFF


def scan_npz(
    stream: BinaryIO, *, max_bytes: int = 1 << 30, max_expanded_bytes: int = 4 << 30
) -> DatasetFound:
    """Look at every value of an open ``.npz`` file, holding only a piece of it at a time.

    Raises:
        TooLarge: it is above a limit, packed or unpacked.
        InvalidDataset: ``dataset_not_npz``, ``dataset_pickled``, ``dataset_name``,
            ``dataset_empty``, ``dataset_dtype``, ``dataset_non_finite``, ``dataset_ragged``.
    """
    file = open_npz(stream, max_bytes=max_bytes, max_expanded_bytes=max_expanded_bytes)
    samples = _samples(file.arrays)
    arrays = [array.view(_look_at_values(file, array)) for array in file.arrays]
    return DatasetFound(arrays=arrays, samples=samples)


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
    empty = next((array for array in arrays if 0 in array.shape), None)
    known = {array.name: array for array in arrays}
    sizes = [[known[name] for name in row.values()] for row in by_size(known)]
    found = [_samples_of_a_size(rows) for rows in sizes]
    if empty is not None:
        raise InvalidDataset(
            f"Array {empty.name[:80]!r} is empty: its shape is {list(empty.shape)}.",
            code="dataset_empty",
            fix="Save at least one sample for each input.",
            array=empty.name[:80],
        )
    return sum(found)


def _samples_of_a_size(arrays: Sequence[Array]) -> int:
    counts = {array.shape[0] for array in arrays}
    if len(counts) > 1:
        said = ", ".join(f"{array.name[:40]} {array.shape[0]}" for array in arrays[:8])
        raise InvalidDataset(
            f"The arrays have different numbers of samples: {said}.",
            code="dataset_ragged",
            why="The first dimension counts the samples.",
            fix="Stack the same samples, in the same order, in every array.",
        )
    return counts.pop()


def _look_at_values(file: NpzFile, array: Array) -> tuple[float, float] | None:
    """Refuse values that are none; return the least and the largest, if they are numbers."""
    seen = 0
    ends: list[float] = []
    for piece in file.pieces(array):
        if array.dtype.kind == "f":
            finite = np.isfinite(piece)
            if not finite.all():
                _refuse_value(array, seen + int(np.argmin(finite)), piece[np.argmin(finite)])
        elif array.dtype.kind == "b" and (piece.view(np.uint8) > 1).any():
            raise not_npz(f"array {array.name!r} holds a boolean that is neither true nor false")
        elif array.dtype.kind == "U" and not _is_text(piece.view(np.uint32)):
            raise not_npz(f"array {array.name!r} holds a letter that there is not")
        seen += piece.size
        if array.dtype.kind != "U" and piece.size:
            ends = [min([*ends[:1], float(piece.min())]), max([*ends[1:], float(piece.max())])]
    return (ends[0], ends[1]) if ends else None


def _is_text(letters: np.ndarray) -> bool:
    """Tell whether numbers are letters, which can be written as UTF-8."""
    surrogates = (letters >= _SURROGATES[0]) & (letters <= _SURROGATES[1])
    return not (surrogates | (letters > sys.maxunicode)).any()


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
