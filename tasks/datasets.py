"""Whether a dataset feeds exactly the inputs of a model, and holds the labels that a metric needs.

The first dimension of every array counts the samples. An array either has its input's dimensions,
its samples lying along the first, or one more, and then each sample is a whole input. Samples of
several sizes lie in arrays of their own, as :mod:`enginefarm.sizes` has it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from enginefarm.counted import counted
from enginefarm.errors import InvalidDataset
from enginefarm.gate import EvaluationMetric
from enginefarm.nearest import did_you_mean
from enginefarm.profile_text import shape_text
from enginefarm.sizes import by_size, is_numbered
from enginefarm.spec import Profile, ShapeRange
from enginefarm.views import TensorView

_WHOLE = re.compile(r"^u?int(8|16|32|64)$")
# Conversions that lose nothing and are made when the dataset is used.
_WIDENED = {("int32", "int64"), ("int16", "int32"), ("int16", "int64"), ("float16", "float32")}
_ROUNDED = {("float64", "float32")}
"""NumPy's own default: what is lost is far below what ranges are taken to."""
_NUMBERS = (
    "Arrays of several sizes are numbered from 0 without a gap, and each size has one for every"
    " input."
)


def check_against(
    inputs: Sequence[TensorView],
    arrays: Sequence[TensorView],
    metric: EvaluationMetric | None = None,
    *,
    rounded: bool = False,
) -> None:
    """Check that a dataset feeds exactly the inputs of a model; beside them only labels may lie.

    ``rounded`` lets numbers of twice the width through; they are rounded when they are used.

    Raises:
        InvalidDataset: ``dataset_unknown_input``, ``dataset_missing_input``, ``dataset_dtype``,
            ``dataset_rank``, ``dataset_shape``, ``dataset_missing_labels``, ``dataset_labels``.
    """
    known = {row.name: row for row in inputs}
    taken = _WIDENED | _ROUNDED if rounded else _WIDENED
    for size in _by_size(arrays, known):
        _check_size(known, size, metric, taken)


def _by_size(arrays: Sequence[TensorView], inputs: Collection[str]) -> list[dict[str, TensorView]]:
    """Return the arrays of each size by the input that they are of."""
    found = {array.name: array for array in arrays}
    return [{name: found[array] for name, array in row.items()} for row in by_size(found, inputs)]


def _check_size(
    known: Mapping[str, TensorView],
    arrays: Mapping[str, TensorView],
    metric: EvaluationMetric | None,
    taken: set[tuple[str, str]],
) -> None:
    """Check the arrays of one size, by the input that they are of."""
    if metric is not None:
        _check_labels(metric, known, arrays)
        arrays = {name: array for name, array in arrays.items() if name != metric.labels}
    for name, array in arrays.items():
        if name not in known:
            raise InvalidDataset(
                f"The dataset has an array {array.name[:80]!r}; the model has no such input.",
                code="dataset_unknown_input",
                why=_NUMBERS if is_numbered(name) else "",
                fix=did_you_mean(name, known) if known else "The model takes no inputs.",
                array=array.name[:80],
            )
        _check_fit(known[name], array, taken)
    missing = sorted(set(known) - set(arrays))
    if missing:
        raise InvalidDataset(
            f"The dataset lacks the input{'s' * (len(missing) > 1)} {', '.join(missing)}.",
            code="dataset_missing_input",
            fix="Save one array for each input, under the input's name.",
            missing=list(missing),
        )


def check_within(
    inputs: Sequence[TensorView], arrays: Sequence[TensorView], profile: Profile
) -> None:
    """Check that samples are of sizes that a profile allows: it would else be seen when measured.

    How many samples make a batch is left to the measurement.

    Raises:
        InvalidDataset: ``dataset_outside_profile``.
    """
    for size in _by_size(arrays, [row.name for row in inputs]):
        for row in inputs:
            if row.name in profile and row.name in size:
                _check_row_within(row, size[row.name], profile[row.name])


def _check_row_within(row: TensorView, array: TensorView, wanted: ShapeRange) -> None:
    have = array.shape
    skipped = 0 if len(have) == len(row.shape) + 1 else 1
    ranges = list(zip(wanted.min, wanted.max, strict=True))[skipped:]
    for axis, (dim, (low, high)) in enumerate(zip(have[1:], ranges, strict=True), 1):
        if isinstance(dim, int) and not low <= dim <= high:
            raise InvalidDataset(
                f"Dimension {axis} of array {array.name!r} is {dim}; the profile allows {low} to"
                f" {high}.",
                code="dataset_outside_profile",
                why="The engine takes no other sizes, so it could not be measured on it.",
                fix="Widen the profile, or leave these samples out.",
                array=array.name,
            )


def _check_labels(
    metric: EvaluationMetric, inputs: Collection[str], arrays: Mapping[str, TensorView]
) -> None:
    found = arrays.get(metric.labels)
    if found is None or metric.labels in inputs:
        others = [name for name in arrays if name not in inputs]
        nearest = f" {did_you_mean(metric.labels, others)}" if others else ""
        raise InvalidDataset(
            f"The dataset has no labels {metric.labels[:80]!r} beside the inputs.",
            code="dataset_missing_labels",
            why=f"The metric {metric.name} compares both sides with them.",
            fix=f"Save one more array, with a label or a row of labels for each sample.{nearest}",
        )
    rank = metric.name.label_rank
    if not _WHOLE.match(found.dtype) or len(found.shape) != rank:
        raise InvalidDataset(
            f"The labels {found.name[:80]!r} are {found.dtype} {shape_text(found.shape)}.",
            code="dataset_labels",
            why=f"{metric.name} needs whole numbers of {rank} dimension{'s' * (rank > 1)}: "
            + ("one for each sample." if rank == 1 else "a row for each sample."),
            fix="Save them as int64; pad rows to the same length with the metric's padding.",
            array=found.name[:80],
        )


def _check_fit(row: TensorView, array: TensorView, taken: set[tuple[str, str]]) -> None:
    if array.dtype != row.dtype and (array.dtype, row.dtype) not in taken:
        raise InvalidDataset(
            f"Array {array.name!r} is {array.dtype}; the model's input is {row.dtype}.",
            code="dataset_dtype",
            why="A conversion could hide a missing scale, such as 0..255 for 0..1.",
            fix=f"Convert it yourself: array.astype('{row.dtype}').",
            array=array.name,
        )
    whole = len(array.shape) == len(row.shape) + 1
    if not whole and (len(array.shape) != len(row.shape) or not row.shape):
        raise InvalidDataset(
            f"Array {array.name!r} has {counted(len(array.shape), 'dimension')}; the input has "
            f"{len(row.shape)}.",
            code="dataset_rank",
            why="Samples lie along the input's first dimension, or along one more before it.",
            fix=f"The input is {shape_text(row.shape)}: use numpy.concatenate over samples of that "
            "shape, or numpy.stack.",
            array=array.name,
        )
    skipped = 0 if whole else 1
    for axis, want in enumerate(row.shape[skipped:], 1):
        have = array.shape[axis]
        if isinstance(want, int) and have != want:
            raise InvalidDataset(
                f"Dimension {axis} of array {array.name!r} is {have}; the model needs {want}.",
                code="dataset_shape",
                why=f"The model's input is {shape_text(row.shape)}.",
                fix="Save the samples in the shape of the model's input.",
                array=array.name,
            )
