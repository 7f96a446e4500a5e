"""Datasets: named arrays in one ``.npz``. Read without pickles, within limits, every value seen."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from enginefarm.errors import InvalidDataset, TooLarge
from enginefarm.nearest import did_you_mean
from enginefarm.views import TensorView

_MAX_ARRAYS = 256
_SUFFIX = ".npy"
_SAFE_CASTS = {("float64", "float32"), ("int32", "int64"), ("float16", "float32")}


@dataclass(frozen=True)
class DatasetScan:
    """The arrays of a dataset; the first dimension of each counts the samples."""

    arrays: list[TensorView]
    samples: int


def scan_npz(
    path: Path, *, max_bytes: int = 1 << 30, max_expanded_bytes: int = 4 << 30
) -> DatasetScan:
    """Read an ``.npz`` and check every value.

    Raises:
        TooLarge: packed or unpacked above the limits.
        InvalidDataset: ``dataset_not_npz``, ``dataset_pickled``, ``dataset_empty``,
            ``dataset_dtype``, ``dataset_non_finite``, ``dataset_ragged``.
    """
    size = path.stat().st_size
    if size > max_bytes:
        raise _too_large(size, max_bytes)
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        expanded = sum(member.file_size for member in members)
        if expanded > max_expanded_bytes:
            raise _too_large(expanded, max_expanded_bytes)
        return _scan(path, members)
    except (zipfile.BadZipFile, EOFError, OSError, SyntaxError, ValueError, KeyError) as error:
        raise _unreadable(error) from error


def _scan(path: Path, members: Sequence[zipfile.ZipInfo]) -> DatasetScan:
    names = [member.filename for member in members]
    if not names or len(names) > _MAX_ARRAYS or len(set(names)) != len(names):
        raise InvalidDataset(
            f"The dataset has {len(names)} arrays.",
            code="dataset_empty",
            fix=f"Save between 1 and {_MAX_ARRAYS} arrays with numpy.savez(file, name=array).",
        )
    arrays: list[TensorView] = []
    with np.load(path, allow_pickle=False) as data:
        for name in data.files:
            array = data[name]
            _check_values(name, array)
            arrays.append(TensorView(name=name, dtype=str(array.dtype), shape=list(array.shape)))
    counts = {row.shape[0] for row in arrays}
    if len(counts) != 1:
        said = ", ".join(f"{row.name}: {row.shape[0]}" for row in arrays)
        raise InvalidDataset(
            f"The arrays have different numbers of samples: {said}.",
            code="dataset_ragged",
            why="The first dimension counts the samples.",
            fix="Stack the same samples, in the same order, in every array.",
        )
    samples = counts.pop()
    if not isinstance(samples, int) or samples == 0:
        raise InvalidDataset("The dataset has no samples.", code="dataset_empty")
    return DatasetScan(arrays, samples)


def _check_values(name: str, array: np.ndarray) -> None:
    if array.ndim == 0:
        raise InvalidDataset(
            f"Array {name[:80]!r} is a single number.",
            code="dataset_ragged",
            fix="Stack the samples along the first dimension; repeat a constant for each.",
            array=name[:80],
        )
    if array.dtype.kind not in "fiub":
        raise InvalidDataset(
            f"Array {name[:80]!r} has the type {array.dtype}.",
            code="dataset_dtype",
            fix="Use floats, integers or booleans.",
            array=name[:80],
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        first = np.argwhere(~np.isfinite(array))[0].tolist()
        raise InvalidDataset(
            f"Array {name[:80]!r} has a NaN or infinity at {first}.",
            code="dataset_non_finite",
            why="A single one makes every comparison meaningless.",
            fix="Remove or mend that sample.",
            array=name[:80],
            index=first,
        )


def check_against(inputs: Sequence[TensorView], arrays: Sequence[TensorView]) -> None:
    """Check that a dataset feeds exactly the inputs of a model.

    An input that has no dimension for samples (a scalar, say) takes one number for each sample.

    Raises:
        InvalidDataset: ``dataset_unknown_input``, ``dataset_missing_input``, ``dataset_dtype``,
            ``dataset_rank``, ``dataset_shape``.
    """
    known = {row.name: row for row in inputs}
    for array in arrays:
        if array.name not in known:
            raise InvalidDataset(
                f"The dataset has an array {array.name[:80]!r}, the model no such input.",
                code="dataset_unknown_input",
                fix=did_you_mean(array.name, known),
                array=array.name[:80],
            )
        _check_fit(known[array.name], array)
    missing = sorted(set(known) - {array.name for array in arrays})
    if missing:
        raise InvalidDataset(
            f"The dataset lacks the input(s) {', '.join(missing)}.",
            code="dataset_missing_input",
            fix="Save one array for each input, under the input's name.",
            missing=list(missing),
        )


def _check_fit(row: TensorView, array: TensorView) -> None:
    if array.dtype != row.dtype and (array.dtype, row.dtype) not in _SAFE_CASTS:
        raise InvalidDataset(
            f"Array {row.name!r} is {array.dtype}, the model's input {row.dtype}.",
            code="dataset_dtype",
            why="A conversion could hide a missing scale (images of 0..255 for 0..1, say).",
            fix=f"Convert it yourself: array.astype('{row.dtype}').",
            array=row.name,
        )
    rank = max(len(row.shape), 1)
    if len(array.shape) != rank:
        raise InvalidDataset(
            f"Array {row.name!r} has {len(array.shape)} dimensions, the input {len(row.shape)}.",
            code="dataset_rank",
            why="The samples are stacked along the input's first dimension.",
            fix="Stack samples of shape [1, …] with numpy.concatenate.",
            array=row.name,
        )
    for axis, (have, want) in enumerate(zip(array.shape[1:], row.shape[1:], strict=False), 1):
        if isinstance(want, int) and have != want:
            raise InvalidDataset(
                f"Dimension {axis} of array {row.name!r} is {have}, the model needs {want}.",
                code="dataset_shape",
                fix="Save the samples in the shape of the model's input.",
                array=row.name,
            )


def _too_large(size: int, limit: int) -> TooLarge:
    return TooLarge(
        f"The dataset has {size} bytes; the limit is {limit}.",
        fix="Send fewer samples; a few hundred are enough to compare outputs.",
    )


def _unreadable(error: Exception) -> InvalidDataset:
    if "pickle" in str(error).lower() or "object" in str(error).lower():
        return InvalidDataset(
            "The dataset holds Python objects.",
            code="dataset_pickled",
            why="Loading them runs code, so the farm does not.",
            fix="Save plain arrays: numpy.savez(file, **{name: numpy.stack(rows)}).",
        )
    return InvalidDataset(
        "The file is not an .npz of arrays.",
        code="dataset_not_npz",
        why=f"{type(error).__name__}: {str(error)[:120]}",
        fix="Save it with numpy.savez or numpy.savez_compressed.",
    )
