"""Whether a dataset feeds exactly the inputs of a model, and holds the labels that a metric needs.

The first dimension of every array counts the samples. An array either has its input's dimensions,
its samples lying along the first, or one more, and then each sample is a whole input.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from enginefarm.counted import counted
from enginefarm.errors import InvalidDataset
from enginefarm.gate import EvaluationMetric
from enginefarm.nearest import did_you_mean
from enginefarm.profile_text import shape_text
from enginefarm.spec import Profile
from enginefarm.views import TensorView

_WHOLE = re.compile(r"^u?int(8|16|32|64)$")
# Conversions that lose nothing and are made when the dataset is used.
_WIDENED = {("int32", "int64"), ("int16", "int32"), ("int16", "int64"), ("float16", "float32")}
_ROUNDED = {("float64", "float32")}
"""NumPy's own default: what is lost is far below what ranges are taken to."""


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
    if metric is not None:
        _check_labels(metric, known, arrays)
        arrays = [array for array in arrays if array.name != metric.labels]
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


def check_within(
    inputs: Sequence[TensorView], arrays: Sequence[TensorView], profile: Profile
) -> None:
    """Check that samples are of sizes that a profile allows: it would else be seen when measured.

    How many samples make a batch is left to the measurement.

    Raises:
        InvalidDataset: ``dataset_outside_profile``.
    """
    known = {array.name: list(array.shape) for array in arrays}
    for row in inputs:
        wanted, have = profile.get(row.name), known.get(row.name)
        if wanted is None or have is None:
            continue
        skipped = 0 if len(have) == len(row.shape) + 1 else 1
        ranges = list(zip(wanted.min, wanted.max, strict=True))[skipped:]
        for axis, (dim, (low, high)) in enumerate(zip(have[1:], ranges, strict=True), 1):
            if isinstance(dim, int) and not low <= dim <= high:
                raise InvalidDataset(
                    f"Dimension {axis} of array {row.name!r} is {dim}; the profile allows {low} to"
                    f" {high}.",
                    code="dataset_outside_profile",
                    why="The engine takes no other sizes, so it could not be measured on it.",
                    fix="Widen the profile, or leave these samples out.",
                    array=row.name,
                )


def _check_labels(
    metric: EvaluationMetric, inputs: Collection[str], arrays: Sequence[TensorView]
) -> None:
    found = next((array for array in arrays if array.name == metric.labels), None)
    if found is None or metric.labels in inputs:
        others = [array.name for array in arrays if array.name not in inputs]
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
            f"Array {row.name!r} is {array.dtype}; the model's input is {row.dtype}.",
            code="dataset_dtype",
            why="A conversion could hide a missing scale, such as 0..255 for 0..1.",
            fix=f"Convert it yourself: array.astype('{row.dtype}').",
            array=row.name,
        )
    whole = len(array.shape) == len(row.shape) + 1
    if not whole and (len(array.shape) != len(row.shape) or not row.shape):
        raise InvalidDataset(
            f"Array {row.name!r} has {counted(len(array.shape), 'dimension')}; the input has "
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
