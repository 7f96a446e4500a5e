"""The samples of a dataset, one at a time: no array is ever held whole.

Ranges are taken from single samples, so that it cannot matter how many would have fit a batch. Only
where the model's batch is fixed, or the profile allows none of one, are that many taken together,
all of one size.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from enginefarm.errors import JobFailed
from enginefarm.sizes import by_size
from enginefarm.spec import Profile
from enginefarm.state import Blame
from enginefarm.views import TensorView
from workers.backends.base import Array
from workers.measurement.inputs import Feeds, numpy_dtype


@dataclass(frozen=True)
class Head:
    """What an array's header says."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool


@dataclass(frozen=True)
class Samples:
    """A dataset as a model takes it; may be walked through any number of times."""

    path: Path
    views: Sequence[TensorView]
    profile: Profile | None = None
    most: int | None = None

    def rounded(self) -> list[str]:
        """Return the inputs whose stored values are of twice the width that the model takes."""
        with zipfile.ZipFile(self.path) as stored:
            every = [heads for _, heads in self._sizes(stored)]
        return [
            view.name
            for view in self.views
            if numpy_dtype(view.dtype) != np.float64
            and any(heads[view.name].dtype == np.float64 for heads in every)
        ]

    def _sizes(
        self, stored: zipfile.ZipFile
    ) -> Iterator[tuple[Mapping[str, str], Mapping[str, Head]]]:
        """Yield, for each size, the names of its arrays and what their headers say, by input."""
        names = [name.removesuffix(".npy") for name in stored.namelist()]
        for size in by_size(names, [view.name for view in self.views]):
            array = {view.name: size.get(view.name, view.name) for view in self.views}
            yield array, {name: _head_of(stored, each) for name, each in array.items()}

    def __iter__(self) -> Iterator[Feeds]:
        """Yield the samples in order, size by size, in the types of the model's inputs."""
        left = self.most
        with zipfile.ZipFile(self.path) as stored:
            for size, heads in self._sizes(stored):
                count = min((head.shape[0] for head in heads.values()), default=0)
                count = count if left is None else min(count, left)
                left = None if left is None else left - count
                yield from self._of_size(stored, size, heads, count)

    def _of_size(
        self,
        stored: zipfile.ZipFile,
        names: Mapping[str, str],
        heads: Mapping[str, Head],
        most: int,
    ) -> Iterator[Feeds]:
        """Yield the samples of one size; ``names`` are those of its arrays."""
        whole = {v.name for v in self.views if len(heads[v.name].shape) == len(v.shape) + 1}
        size = 1 if whole else self._together()
        streams = {view.name: _rows(stored, names[view.name]) for view in self.views}
        for _ in range(most // size):
            feeds: Feeds = {}
            for view in self.views:
                rows = np.stack([next(streams[view.name]) for _ in range(size)])
                row = rows[0] if view.name in whole else rows
                feeds[view.name] = np.array(row, dtype=numpy_dtype(view.dtype), order="C")
            yield feeds

    def _together(self) -> int:
        least = [1]
        for view in self.views:
            first = view.shape[0] if view.shape else 1
            if isinstance(first, int):
                least.append(first)
            elif self.profile is not None and view.name in self.profile:
                least.append(self.profile[view.name].min[0])
        return max(least)


def _member(stored: zipfile.ZipFile, name: str) -> IO[bytes]:
    try:
        return stored.open(f"{name}.npy")
    except KeyError:
        raise JobFailed(
            f"The dataset lacks {name}.",
            blame=Blame.PERSON,
            code="dataset_missing_input",
            fix="Give an array for every input of the model.",
        ) from None


def _head_of(stored: zipfile.ZipFile, name: str) -> Head:
    with _member(stored, name) as stream:
        return _head(stream)


def _head(stream: IO[bytes]) -> Head:
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    return Head(tuple(shape), dtype, bool(fortran))


def _rows(stored: zipfile.ZipFile, name: str) -> Iterator[Array]:
    """Yield the rows of an array; one that is laid out by columns has to be read whole."""
    with _member(stored, name) as stream:
        head = _head(stream)
        if head.dtype.hasobject:
            message = f"{name} holds Python objects"
            raise ValueError(message)
        row = head.shape[1:]
        if head.fortran and len(head.shape) > 1:
            everything = np.frombuffer(stream.read(), head.dtype).reshape(head.shape, order="F")
            yield from everything
            return
        size = head.dtype.itemsize * int(np.prod(row, dtype=np.int64))
        for _ in range(head.shape[0]):
            yield np.frombuffer(stream.read(size), head.dtype).reshape(row)
