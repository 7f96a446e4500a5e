"""What ONNX Runtime computes otherwise than ONNX's reference is left; the rest is as it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.unit.workers.repair.made import Array, model, ran, weight
from workers.repair.folding import Constants

RNG = np.random.default_rng(7)
LONG = RNG.standard_normal(5000).astype(np.float32)


def alone(op: str, array: Array, opset: int, **said: Any) -> onnx.ModelProto:  # noqa: ANN401
    node = helper.make_node(op, ["w"], ["y"], **said)
    return model(
        [node], [], [helper.make_empty_tensor_value_info("y")], [weight("w", array)], opset=opset
    )


def folded(made: onnx.ModelProto) -> Array | None:
    return Constants(made).learn(made.graph.node[0])


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("opset", [9, 17])
def test_the_extreme_of_numbers_with_nan_is_left(op: str, opset: int) -> None:
    array = np.array([[1, np.nan, 3], [np.nan, 2, 1]], np.float32)
    assert folded(alone(op, array, opset, axes=[1])) is None


def test_a_long_sum_of_floats_is_left() -> None:
    assert folded(alone("ReduceSum", LONG, 9)) is None
    assert folded(alone("ReduceSum", np.full(3000, 4095, np.float32), 9)) is not None
    assert folded(alone("ReduceSum", np.full(5000, 4096 * 4, np.float32), 9)) is None


def test_a_product_that_leaves_its_type_is_left() -> None:
    assert folded(alone("ReduceProd", np.array([65536, 65536, 3], np.int32), 13)) is None
    assert folded(alone("ReduceProd", np.array([1 << 40, 1 << 40], np.int64), 13)) is None
    assert folded(alone("ReduceProd", np.array([0.1, 0.3, 0.7], np.float32), 13)) is None


def test_a_number_as_text_is_left() -> None:
    array = np.array([1.5, 1e-7, 3e38], np.float32)
    assert folded(alone("Cast", array, 13, to=TensorProto.STRING)) is None
    texts = np.array(["1.5", "1e3"], object)
    assert folded(alone("Cast", texts, 13, to=TensorProto.FLOAT)) is None


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"])
@pytest.mark.parametrize("opset", [9, 12])
def test_what_is_folded_is_what_onnx_runtime_gives(op: str, kind: type, opset: int) -> None:
    made = alone(op, RNG.integers(-3, 4, (3, 2)).astype(kind), opset, axes=[0], keepdims=0)
    found = folded(made)
    assert found is not None
    (wanted,) = ran(made, {})
    assert (found.dtype, found.tolist()) == (wanted.dtype, wanted.tolist())
