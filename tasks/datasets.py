"""Whether a dataset feeds exactly the inputs of a model.

The first dimension of every array counts the samples. An array either has its input's dimensions,
its samples lying along the first, or one more, and then each sample is a whole input.
"""

from __future__ import annotations

from collections.abc import Sequence

from enginefarm.errors import InvalidDataset
from enginefarm.nearest import did_you_mean
from enginefarm.profile_text import shape_text
from enginefarm.views import TensorView

# Conversions that lose nothing and are made when the dataset is used.
_WIDENED = {("int32", "int64"), ("int16", "int32"), ("int16", "int64"), ("float16", "float32")}


_ROUNDED = {("float64", "float32")}
"""NumPy's own default: what is lost is far below what ranges are taken to."""


def check_against(
    inputs: Sequence[TensorView], arrays: Sequence[TensorView], *, rounded: bool = False
) -> None:
    """Check that a dataset feeds exactly the inputs of a model.

    ``rounded`` lets numbers of twice the width through; they are rounded when they are used.

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
        _check_fit(known[array.name], array, _WIDENED | _ROUNDED if rounded else _WIDENED)
    missing = sorted(set(known) - {array.name for array in arrays})
    if missing:
        raise InvalidDataset(
            f"The dataset lacks the input{'s' * (len(missing) > 1)} {', '.join(missing)}.",
            code="dataset_missing_input",
            fix="Save one array for each input, under the input's name.",
            missing=list(missing),
        )


def _check_fit(row: TensorView, array: TensorView, taken: set[tuple[str, str]]) -> None:
    if array.dtype != row.dtype and (array.dtype, row.dtype) not in taken:
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
