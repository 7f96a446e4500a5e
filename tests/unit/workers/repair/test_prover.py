"""A proof is made on the shapes of the profile, and says what it could not compare."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from enginefarm.fixed import with_fixed
from enginefarm.model_file import scan_model
from enginefarm.spec import FixedInput, Profile, SyntheticInput
from tests.unit.workers.repair.made import INT64, Array, model, shapes, value, weight
from workers.repair import prover
from workers.repair.base import Ground
from workers.repair.prover import Prover, Unproven, not_same


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


def saved(folder: Path, made: onnx.ModelProto, name: str = "model.onnx") -> Path:
    path = folder / name
    onnx.save(made, str(path))
    return path


def proven(
    path: Path,
    *profiles: Profile,
    fixed: dict[str, FixedInput] | None = None,
    synthetic: dict[str, SyntheticInput] | None = None,
) -> Prover:
    declared = scan_model(path).inputs
    return Prover(
        Ground(
            backend="onnxruntime",
            folder=path.parent,
            declared=declared,
            inputs=with_fixed(declared, fixed or {}),
            profiles=profiles,
            fixed=fixed or {},
            synthetic=synthetic or {},
        )
    )


def unary(kind: str, *shape: int | str) -> onnx.ModelProto:
    node = helper.make_node(kind, ["x"], ["y"])
    return model([node], [value("x", *shape)], [value("y", *shape)])


def test_every_end_of_every_profile_is_tried(tmp_path: Path) -> None:
    path = saved(tmp_path, unary("Relu", "n", 2))
    one = {"x": shapes([1, 2], [2, 2], [3, 2])}
    other = {"x": shapes([5, 2], [5, 2], [7, 2])}
    tried = [feeds["x"].shape for feeds in proven(path, one, other).feeds]
    assert tried == [(1, 2), (2, 2), (3, 2), (5, 2), (5, 2), (7, 2)]


def test_a_fixed_shape_is_tried_with_two_sets_of_values(tmp_path: Path) -> None:
    feeds = proven(saved(tmp_path, unary("Relu", 3, 2))).feeds
    assert len(feeds) == 2
    assert not np.array_equal(feeds[0]["x"], feeds[1]["x"])


def test_the_inputs_are_the_same_each_time(tmp_path: Path) -> None:
    path = saved(tmp_path, unary("Relu", 3, 2))
    for a, b in zip(proven(path).feeds, proven(path).feeds, strict=True):
        assert np.array_equal(a["x"], b["x"])


def test_shapes_that_are_too_large_are_left_out_and_if_all_are_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prover, "MOST_ELEMENTS", 10)
    path = saved(tmp_path, unary("Relu", "n", 2))
    fits = {"x": shapes([1, 2], [5, 2], [6, 2])}
    assert [feeds["x"].shape for feeds in proven(path, fits).feeds] == [(1, 2), (5, 2)]
    with pytest.raises(Unproven, match="more than"):
        proven(path, {"x": shapes([6, 2], [6, 2], [6, 2])}).run(path)


def test_values_that_a_person_described_are_what_it_is_proven_on(tmp_path: Path) -> None:
    node = helper.make_node("Gather", ["table", "ids"], ["y"])
    made = model(
        [node],
        [value("ids", 4, dtype=INT64)],
        [value("y", 4, 2)],
        [weight("table", np.eye(9, 2, dtype=np.float32))],
    )
    path = saved(tmp_path, made)
    told = {"ids": SyntheticInput(low=7, high=8)}
    assert set(proven(path, synthetic=told).feeds[0]["ids"]) <= {7, 8}


def test_nothing_says_which_shape_to_try(tmp_path: Path) -> None:
    path = saved(tmp_path, unary("Relu", "n", 2))
    with pytest.raises(Unproven, match="dynamic"):
        proven(path).run(path)


def test_equal_nans_are_equal_and_a_nan_against_a_number_is_not(tmp_path: Path) -> None:
    log, again = saved(tmp_path, unary("Log", 3, 2)), saved(tmp_path, unary("Log", 3, 2), "b.onnx")
    judge = proven(log)
    assert judge.compare(judge.run(log), judge.run(again)).bit_equal
    other = saved(tmp_path, unary("Abs", 3, 2), "c.onnx")
    with pytest.raises(Unproven, match="finite"):
        judge.compare(judge.run(log), judge.run(other))


def test_an_error_is_measured_against_the_largest_value(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mul", ["x", "k"], ["y"])]
    paths = [
        saved(
            tmp_path,
            model(nodes, [value("x", 8)], [value("y", 8)], [weight("k", np.float32(by))]),
            f"{by}.onnx",
        )
        for by in (2.0, 2.5)
    ]
    judge = proven(paths[0])
    proof = judge.compare(*(judge.run(path) for path in paths))
    assert proof.max_rel_error == pytest.approx(0.25)
    assert (proof.outputs, proof.bit_equal) == (2, False)


def test_a_sign_of_life_is_given_before_each_run(tmp_path: Path) -> None:
    path = saved(tmp_path, unary("Relu", 3, 2))
    signs: list[int] = []
    declared = scan_model(path).inputs
    ground = Ground("onnxruntime", tmp_path, declared=declared, inputs=declared)
    Prover(ground, lambda: signs.append(1)).run(path)
    assert len(signs) == 2


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        (np.array([1000000, 1]), np.array([1000000, 2]), 1),
        (np.array([2**60, 1]), np.array([2**60 + 1, 1]), 1),
        (np.array([True, False]), np.array([True, True]), 1),
        (floats(1, 2, -3.4e38), floats(1, 2.01, -3.4e38), 1),
        (floats(1, 2, 3, 1e30), floats(1, 2, 3, 1.1e30), 1),
        (floats(1, 2, 3e-9), floats(1, 2, -3e-9), 0),
        (floats(0, 0, 0, 1, 2), floats(1e-6, 0, 0, 1, 2), 0),
        (floats(0, 0), floats(0, 1e-9), 1),
        (floats(0.0, 1), floats(-0.0, 1), 0),
        (floats(np.nan, np.inf, 1), floats(np.nan, np.inf, 1.000001), 0),
        (floats(np.inf, 1), floats(-np.inf, 1), 1),
    ],
)
def test_one_huge_element_hides_no_other_and_integers_are_equal(
    before: Array, after: Array, count: int
) -> None:
    assert not_same(before, after) == count
