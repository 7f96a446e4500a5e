"""Samples come one at a time, whatever was stored, and no array is held whole."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from enginefarm.errors import JobFailed
from enginefarm.spec import Profile
from enginefarm.views import TensorView
from workers.precision.samples import Samples


def view(name: str = "x", dtype: str = "float32", *shape: int | str) -> TensorView:
    return TensorView(name=name, dtype=dtype, shape=list(shape) or ["n", 4])


def stored(folder: Path, **arrays: Any) -> Path:  # noqa: ANN401 - arrays
    path = folder / "data.npz"
    with path.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)
    return path


def test_samples_along_the_first_dimension_keep_it(tmp_path: Path) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = list(Samples(stored(tmp_path, x=array), [view()]))
    assert [row["x"].shape for row in found] == [(1, 4)] * 3
    assert np.array_equal(np.concatenate([row["x"] for row in found]), array)


def test_samples_along_a_dimension_more_are_whole_inputs(tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    found = list(Samples(stored(tmp_path, x=array), [view()]))
    assert [row["x"].shape for row in found] == [(3, 4)] * 2


def test_a_fixed_batch_takes_so_many_together(tmp_path: Path) -> None:
    path = stored(tmp_path, x=np.zeros((5, 4), np.float32))
    assert [row["x"].shape for row in Samples(path, [view("x", "float32", 2, 4)])] == [(2, 4)] * 2
    least: Profile = TypeAdapter(Profile).validate_python(
        {"x": {"min": [4, 4], "opt": [4, 4], "max": [8, 4]}}
    )
    assert [row["x"].shape for row in Samples(path, [view()], least)] == [(4, 4)]


def test_only_the_first_so_many_are_taken_and_twice_is_the_same(tmp_path: Path) -> None:
    samples = Samples(stored(tmp_path, x=np.eye(4, dtype=np.float32)), [view()], None, 2)
    assert len(list(samples)) == len(list(samples)) == 2


def test_sizes_follow_each_other_and_the_first_so_many_are_of_all_of_them(tmp_path: Path) -> None:
    wide, narrow = np.ones((2, 6), np.float32), np.zeros((3, 4), np.float32)
    path = stored(tmp_path, **{"x/0": narrow, "x/1": wide})
    views = [view("x", "float32", "n", "w")]
    assert [row["x"].shape for row in Samples(path, views)] == [(1, 4)] * 3 + [(1, 6)] * 2
    assert [row["x"].shape for row in Samples(path, views, None, 4)] == [(1, 4)] * 3 + [(1, 6)]


def test_a_batch_is_never_of_two_sizes(tmp_path: Path) -> None:
    path = stored(tmp_path, **{"x/0": np.zeros((3, 4), "f4"), "x/1": np.zeros((2, 6), "f4")})
    found = list(Samples(path, [view("x", "float32", 2, "w")]))
    assert [row["x"].shape for row in found] == [(2, 4), (2, 6)]


def test_numbers_come_in_the_models_types(tmp_path: Path) -> None:
    path = stored(tmp_path, x=np.eye(4), ids=np.ones((4, 2), np.int32))
    found = next(iter(Samples(path, [view(), view("ids", "int64", "n", 2)])))
    assert [str(row.dtype) for row in found.values()] == ["float32", "int64"]


def test_an_array_laid_out_by_columns_is_read_right(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    found = Samples(stored(tmp_path, x=array), [view()])
    assert np.array_equal(np.concatenate([row["x"] for row in found]), array)


def test_an_input_without_an_array_is_told(tmp_path: Path) -> None:
    with pytest.raises(JobFailed) as refused:
        list(Samples(stored(tmp_path, y=np.eye(4, dtype=np.float32)), [view()]))
    assert refused.value.code == "dataset_missing_input"


def test_memory_does_not_grow_with_the_number_of_samples(tmp_path: Path) -> None:
    row = 1 << 16
    path = stored(tmp_path, x=np.zeros((256, row), np.float32))
    tracemalloc.start()
    try:
        count = sum(1 for _ in Samples(path, [view("x", "float32", "n", row)]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 256
    assert peak < 16 * row * 4 < 256 * row * 4
