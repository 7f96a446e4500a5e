"""Synthetic inputs and batches of a dataset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from enginefarm.errors import JobFailed
from enginefarm.spec import Profile, ShapeRange, SyntheticInput
from enginefarm.views import TensorView
from workers.backends.base import Array
from workers.measurement import inputs
from workers.measurement.inputs import Dataset

IMAGE = TensorView(name="x", dtype="float", shape=["n", 3])
PROFILE = {"x": ShapeRange(min=[1, 3], opt=[2, 3], max=[4, 3])}


def make(
    view: TensorView,
    profile: Profile | None = None,
    wanted: dict[str, SyntheticInput] | None = None,
    seed: int = 0,
) -> Array:
    """Return one synthetic input."""
    return inputs.synthetic([view], profile, wanted or {}, np.random.default_rng(seed))[view.name]


def test_the_same_seed_gives_the_same_values_and_another_does_not() -> None:
    assert np.array_equal(make(IMAGE, PROFILE), make(IMAGE, PROFILE))
    assert not np.array_equal(make(IMAGE, PROFILE), make(IMAGE, PROFILE, seed=1))


def test_shapes_are_the_profiles_opt() -> None:
    assert make(IMAGE, PROFILE).shape == (2, 3)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
def test_whole_numbers_default_to_zero_and_one(dtype: str) -> None:
    made = make(TensorView(name="x", dtype=dtype, shape=[1000]))
    assert made.dtype == np.dtype(dtype)
    assert set(made.astype(int)) == {0, 1}


@pytest.mark.parametrize(
    ("dtype", "numpy"), [("float", "f4"), ("double", "f8"), ("float16", "f2"), ("float32", "f4")]
)
def test_floating_point_is_standard_normal(dtype: str, numpy: str) -> None:
    made = make(TensorView(name="x", dtype=dtype, shape=[4000]))
    assert made.dtype == np.dtype(numpy)
    assert abs(float(made.astype("f8").mean())) < 0.1
    assert abs(float(made.astype("f8").std()) - 1) < 0.1


def test_a_range_is_kept_and_includes_both_ends() -> None:
    view = TensorView(name="x", dtype="int64", shape=[2000])
    made = make(view, wanted={"x": SyntheticInput(low=3, high=5)})
    assert set(made) == {3, 4, 5}


def test_a_value_fills_the_input() -> None:
    view = TensorView(name="sr", dtype="int64", shape=[])
    made = make(view, wanted={"sr": SyntheticInput(value=16000)})
    assert made.shape == ()
    assert made == 16000


def test_a_type_without_numbers_asks_for_a_dataset() -> None:
    with pytest.raises(JobFailed) as caught:
        make(TensorView(name="text", dtype="string", shape=[1]))
    assert caught.value.code == "synthetic_inputs_rejected"
    assert caught.value.blame == "person"


def test_a_dynamic_input_without_a_profile_is_refused() -> None:
    with pytest.raises(JobFailed) as caught:
        make(IMAGE)
    assert caught.value.code == "profile_required"


def test_a_dataset_is_cut_to_the_profiles_opt_and_its_rest_is_kept() -> None:
    data = Dataset({"x": np.arange(15, dtype="f").reshape(5, 3)}, 5)
    found = [(feeds["x"].shape, count) for feeds, count in inputs.batches(data, [IMAGE], PROFILE)]
    assert found == [((2, 3), 2), ((2, 3), 2), ((1, 3), 1)]


def test_a_dataset_of_several_sizes_is_read_size_by_size(tmp_path: Path) -> None:
    arrays = {"x/0": np.zeros((5, 3), "f"), "x/1": np.ones((3, 4), "f")}
    np.savez(tmp_path / "sizes.npz", allow_pickle=False, **arrays)
    sizes = inputs.open_dataset(tmp_path / "sizes.npz", ["x"])
    assert [(size.arrays["x"].shape, size.samples) for size in sizes] == [((5, 3), 5), ((3, 4), 3)]
    own = inputs.open_dataset(tmp_path / "sizes.npz", ["x/0", "x/1"])
    assert [set(size.arrays) for size in own] == [{"x/0", "x/1"}]
    fixed = TensorView(name="x", dtype="float", shape=[2, None])
    profile = {"x": ShapeRange(min=[2, 3], opt=[2, 3], max=[2, 4])}
    assert [inputs.used(size, [fixed], profile) for size in sizes] == [4, 2]
    assert [inputs.used(size, [IMAGE], PROFILE) for size in sizes] == [5, 3]


def test_a_fixed_batch_leaves_the_rest_out() -> None:
    view = TensorView(name="x", dtype="float", shape=[2, 3])
    data = Dataset({"x": np.zeros((5, 3), "f")}, 5)
    assert sum(count for _, count in inputs.batches(data, [view], None)) == 4


def test_whole_inputs_per_sample_are_run_one_by_one() -> None:
    rate = TensorView(name="sr", dtype="int64", shape=[])
    data = Dataset({"x": np.zeros((3, 3), "f"), "sr": np.array([8, 16, 16])}, 3)
    found = list(inputs.batches(data, [IMAGE, rate], PROFILE))
    assert [(feeds["x"].shape, int(feeds["sr"])) for feeds, _ in found] == [
        ((1, 3), 8),
        ((1, 3), 16),
        ((1, 3), 16),
    ]


def test_batches_have_the_models_type() -> None:
    data = Dataset({"x": np.zeros((2, 3), "f8")}, 2)
    feeds, _ = next(inputs.batches(data, [IMAGE], PROFILE))
    assert feeds["x"].dtype == np.float32


def test_a_batch_outside_the_profile_is_named() -> None:
    fault = inputs.outside({"x": np.zeros((9, 3), "f")}, PROFILE)
    assert fault is not None
    assert "[9, 3]" in fault
    assert inputs.outside({"x": np.zeros((4, 3), "f")}, PROFILE) is None


def test_pickles_are_never_read(tmp_path: Path) -> None:
    path = tmp_path / "dataset.npz"
    np.savez(path, x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        inputs.open_dataset(path)


def test_the_batch_is_what_all_inputs_share() -> None:
    assert inputs.shared_batch({"a": np.zeros((2, 3)), "b": np.zeros((2,))}) == 2
    assert inputs.shared_batch({"a": np.zeros((2, 3)), "b": np.zeros((3,))}) is None
    assert inputs.shared_batch({"a": np.zeros(()), "b": np.zeros((3,))}) is None
