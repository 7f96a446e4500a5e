"""Inputs to measure with: batches of the evaluation dataset, or seeded synthetic values.

Synthetic values are standard normal for floating point, 0 or 1 for whole numbers and booleans,
unless the build says otherwise for an input. Only numpy is used here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from enginefarm.calibration_findings import beyond
from enginefarm.errors import JobFailed
from enginefarm.sizes import by_size
from enginefarm.spec import Profile, SyntheticInput
from enginefarm.state import Blame
from enginefarm.views import TensorView
from workers.backends.base import Array

Feeds = dict[str, Array]
NUMPY_NAMES = {
    "float": "float32",
    "double": "float64",
    "float16": "float16",
    "half": "float16",
}
_INTEGER = re.compile(r"^u?int(8|16|32|64)$")
FIX = "Give synthetic values for it (synthetic: low and high, or value), or an evaluation dataset."


def numpy_dtype(dtype: str) -> np.dtype[np.generic] | None:
    """Return numpy's type for a tensor type's name, or None if numpy has none."""
    name = NUMPY_NAMES.get(dtype, dtype)
    known = name in {"float32", "float64", "float16", "bool"} or _INTEGER.match(name)
    return np.dtype(name) if known else None


def shape_at(view: TensorView, profile: Profile | None, which: str) -> list[int]:
    """Return an input's shape at ``min``, ``opt`` or ``max`` of a profile.

    Raises:
        JobFailed: a dynamic dimension has no profile (code ``profile_required``).
    """
    if profile is not None and view.name in profile:
        return list(getattr(profile[view.name], which))
    if all(isinstance(dim, int) for dim in view.shape):
        return [dim for dim in view.shape if isinstance(dim, int)]
    raise JobFailed(
        f"Input {view.name} has dynamic dimensions and there is no profile for it.",
        blame=Blame.PERSON,
        code="profile_required",
        why="Nothing says which shape to measure at.",
        fix="Give min, opt and max shapes for it.",
    )


def synthetic(
    views: Sequence[TensorView],
    profile: Profile | None,
    wanted: Mapping[str, SyntheticInput],
    rng: np.random.Generator,
    which: str = "opt",
) -> Feeds:
    """Return one set of inputs at the profile's ``min``, ``opt`` or ``max`` shapes."""
    return {view.name: _values(view, shape_at(view, profile, which), wanted, rng) for view in views}


def _values(
    view: TensorView,
    shape: list[int],
    wanted: Mapping[str, SyntheticInput],
    rng: np.random.Generator,
) -> Array:
    dtype = numpy_dtype(view.dtype)
    if dtype is None:
        raise JobFailed(
            f"Input {view.name} is of type {view.dtype}, for which no values can be made.",
            blame=Blame.PERSON,
            code="synthetic_inputs_rejected",
            why="Synthetic values exist for numbers and booleans only.",
            fix="Give an evaluation dataset.",
        )
    made = wanted.get(view.name)
    if made is not None and made.value is not None:
        return np.full(shape, made.value).astype(dtype)
    if dtype.kind == "f" and made is None:
        return rng.standard_normal(shape).astype(dtype)
    low, high = (made.low or 0.0, made.high or 0.0) if made is not None else (0.0, 1.0)
    if dtype.kind == "f":
        return rng.uniform(low, high, shape).astype(dtype)
    return rng.integers(math.ceil(low), math.floor(high), shape, endpoint=True).astype(dtype)


@dataclass(frozen=True)
class Dataset:
    """Named arrays whose first dimension counts the samples; those of one size, or of all."""

    arrays: Feeds
    samples: int


def open_dataset(path: Path, inputs: Collection[str] = ()) -> list[Dataset]:
    """Read an evaluation dataset, size by size; pickles are never read."""
    with np.load(path, allow_pickle=False) as stored:
        sizes = [
            {name: stored[array] for name, array in row.items()}
            for row in by_size(stored.files, inputs)
        ]
    return [Dataset(row, min((len(array) for array in row.values()), default=0)) for row in sizes]


def batches(
    dataset: Dataset, views: Sequence[TensorView], profile: Profile | None
) -> Iterator[tuple[Feeds, int]]:
    """Yield the dataset in batches, with the number of samples in each.

    An array with its input's rank is cut along its first dimension, to the profile's opt; one with
    a rank more holds one whole input per sample, and then every batch is one sample. The last
    batch may be short where the model's batch is dynamic; where it is fixed, its rest is left out.
    """
    whole = _whole(dataset, views)
    size, fixed = _batching(dataset, views, profile)
    for start in range(0, dataset.samples, size):
        stop = min(start + size, dataset.samples)
        if fixed and stop - start < size:
            return
        feeds = {}
        for view in views:
            array = dataset.arrays[view.name]
            cut = array[start] if view in whole else array[start:stop]
            feeds[view.name] = np.array(cut, dtype=numpy_dtype(view.dtype), order="C")
        yield feeds, stop - start


def used(dataset: Dataset, views: Sequence[TensorView], profile: Profile | None) -> int:
    """Return how many samples :func:`batches` yields."""
    size, fixed = _batching(dataset, views, profile)
    return dataset.samples - dataset.samples % size * fixed


def _whole(dataset: Dataset, views: Sequence[TensorView]) -> list[TensorView]:
    """Return the inputs of which each sample holds one whole."""
    return [view for view in views if dataset.arrays[view.name].ndim == len(view.shape) + 1]


def _batching(
    dataset: Dataset, views: Sequence[TensorView], profile: Profile | None
) -> tuple[int, bool]:
    """Return how many samples make a batch, and whether every batch has to be full."""
    if _whole(dataset, views):
        return 1, False
    fixed = any(view.shape and isinstance(view.shape[0], int) for view in views)
    return max(1, min((_batch_at_opt(v, profile) for v in views), default=1)), fixed


def _batch_at_opt(view: TensorView, profile: Profile | None) -> int:
    shape = shape_at(view, profile, "opt")
    return shape[0] if shape else 1


def outside(feeds: Feeds, profile: Profile | None) -> str | None:
    """Return what of a batch lies outside the profile, or None."""
    return beyond({name: array.shape for name, array in feeds.items()}, profile)


def shared_batch(feeds: Mapping[str, Array]) -> int | None:
    """Return the first dimension that all inputs share, or None."""
    firsts = {array.shape[0] if array.ndim else None for array in feeds.values()}
    return firsts.pop() if len(firsts) == 1 else None
