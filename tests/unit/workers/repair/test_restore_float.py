"""Dynamic int8 goes back to float, whole or not at all, and the difference is measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from enginefarm.repair_report import Outcome
from tests.unit.workers.repair.made import model, one, ops, ran, through, value, weight

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 8)).astype(np.float32)
WEIGHT = RNG.integers(0, 255, (8, 4)).astype(np.uint8)


def dense(scale: object = 0.01, zero: object = 128) -> onnx.ModelProto:
    """A dense layer as ONNX Runtime's dynamic quantization writes it."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "xs", "xz"]),
        helper.make_node("MatMulInteger", ["q", "w", "xz", "wz"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["xs", "ws"], ["s"]),
        helper.make_node("Mul", ["f", "s"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["y"]),
    ]
    weights = [
        weight("w", WEIGHT),
        weight("wz", np.asarray(zero, np.uint8)),
        weight("ws", np.asarray(scale, np.float32)),
        weight("b", np.ones(4, np.float32)),
    ]
    return model(nodes, [value("x", 3, 8)], [value("y", 3, 4)], weights)


@pytest.mark.parametrize(
    ("scale", "zero"),
    [(0.01, 128), ([0.01, 0.02, 0.03, 0.04], [1, 2, 3, 4])],
    ids=["one scale", "one for each column"],
)
def test_a_dense_layer_computes_with_its_weights_in_float(
    tmp_path: Path, scale: object, zero: object
) -> None:
    made = dense(scale, zero)
    found, reports = through(made, tmp_path, "restore-float")
    assert ops(found) == ["MatMul", "Add"]
    real = (WEIGHT.astype(np.float32) - np.asarray(zero, np.float32)) * np.asarray(
        scale, np.float32
    )
    assert np.allclose(ran(found, {"x": X})[0], X @ real + 1, atol=1e-5)
    report = one(reports, "restore-float")
    assert report.outcome is Outcome.APPLIED
    assert report.proof is not None
    assert report.proof.max_abs_error is not None
    assert report.proof.max_abs_error > 0
    assert "differ by at most" in report.why
    close = ran(made, {"x": X})[0]
    assert np.max(np.abs(ran(found, {"x": X})[0] - close)) < 0.05 * np.max(np.abs(close))


def test_a_convolution_whose_bias_was_rounded_gets_it_back(tmp_path: Path) -> None:
    kernel = RNG.integers(-100, 100, (2, 1, 3, 3)).astype(np.int8)
    bias = np.array([0.25, -0.5], np.float32)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "xs", "xz"]),
        helper.make_node("ConvInteger", ["q", "w", "xz", "wz"], ["i"], pads=[1, 1, 1, 1]),
        helper.make_node("Mul", ["xs", "ws"], ["s"]),
        helper.make_node("Div", ["b", "s"], ["d"]),
        helper.make_node("Floor", ["d"], ["r"]),
        helper.make_node("Cast", ["r"], ["bi"], to=onnx.TensorProto.INT32),
        helper.make_node("Reshape", ["bi", "four"], ["bs"]),
        helper.make_node("Add", ["i", "bs"], ["ib"]),
        helper.make_node("Cast", ["ib"], ["f"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "s"], ["y"]),
    ]
    weights = [
        weight("w", kernel.view(np.uint8) ^ 128),
        weight("wz", np.uint8(128)),
        weight("ws", np.float32(0.02)),
        weight("b", bias),
        weight("four", np.array([1, 2, 1, 1], np.int64)),
    ]
    made = model(nodes, [value("x", 1, 1, 6, 6)], [value("y", 1, 2, 6, 6)], weights)
    found, _ = through(made, tmp_path, "restore-float")
    assert sorted(ops(found)) == ["Add", "Conv", "Reshape"]
    x = RNG.standard_normal((1, 1, 6, 6)).astype(np.float32)
    before, after = ran(made, {"x": x})[0], ran(found, {"x": x})[0]
    assert np.max(np.abs(before - after)) < 0.05 * np.max(np.abs(before))


def test_two_activations_that_are_multiplied_need_no_weight(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["a"], ["qa", "sa", "za"]),
        helper.make_node("DynamicQuantizeLinear", ["b"], ["qb", "sb", "zb"]),
        helper.make_node("MatMulInteger", ["qa", "qb", "za", "zb"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["sb", "sa"], ["s"]),
        helper.make_node("Mul", ["f", "s"], ["y"]),
    ]
    made = model(nodes, [value("a", 3, 8), value("b", 8, 4)], [value("y", 3, 4)])
    found, _ = through(made, tmp_path, "restore-float")
    assert ops(found) == ["MatMul"]


def test_an_lstm_gets_its_weights_the_way_onnx_wants_them(tmp_path: Path) -> None:
    hidden, size = 4, 6
    w = RNG.integers(-127, 127, (2, size, 4 * hidden)).astype(np.int8)
    r = RNG.integers(-127, 127, (2, hidden, 4 * hidden)).astype(np.int8)
    inputs = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    node = helper.make_node(
        "DynamicQuantizeLSTM",
        inputs,
        ["y"],
        domain="com.microsoft",
        direction="bidirectional",
        hidden_size=hidden,
    )
    weights = [
        weight("w", w),
        weight("r", r),
        weight("b", RNG.standard_normal((2, 8 * hidden)).astype(np.float32)),
        *(weight(name, np.array([0.01, 0.02], np.float32)) for name in ("ws", "rs")),
        *(weight(name, np.zeros(2, np.int8)) for name in ("wz", "rz")),
    ]
    made = model(
        [node], [value("x", 5, 1, size)], [value("y", 5, 2, 1, hidden)], weights,
        domains=["com.microsoft"],
    )  # fmt: skip
    found, _ = through(made, tmp_path, "restore-float")
    assert ops(found) == ["LSTM"]
    onnx.checker.check_model(found)
    x = RNG.standard_normal((5, 1, size)).astype(np.float32)
    before, after = ran(made, {"x": x})[0], ran(found, {"x": x})[0]
    assert np.max(np.abs(before - after)) < 0.05


def test_integers_that_are_read_otherwise_leave_the_whole_model_alone(tmp_path: Path) -> None:
    made = dense()
    made.graph.output.append(helper.make_tensor_value_info("i", onnx.TensorProto.INT32, [3, 4]))
    found, reports = through(made, tmp_path, "restore-float")
    assert found.SerializeToString() == made.SerializeToString()
    assert one(reports, "restore-float").outcome is Outcome.NOT_APPLIED


def test_a_scale_of_something_else_leaves_the_whole_model_alone(tmp_path: Path) -> None:
    made = dense()
    made.graph.node[4].input[1] = "ws"
    _, reports = through(made, tmp_path, "restore-float")
    assert one(reports, "restore-float").outcome is Outcome.NOT_APPLIED


def rows_on_the_left(scale: object) -> onnx.ModelProto:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "xs", "xz"]),
        helper.make_node("MatMulInteger", ["w", "q", "", "xz"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["xs", "ws"], ["s"]),
        helper.make_node("Mul", ["f", "s"], ["y"]),
    ]
    weights = [weight("w", WEIGHT[:4, :4]), weight("ws", np.asarray(scale, np.float32))]
    return model(nodes, [value("x", 4, 4)], [value("y", 4, 4)], weights)


def test_a_weight_on_the_left_has_its_scales_by_row(tmp_path: Path) -> None:
    scale = np.array([[0.01], [0.02], [0.5], [1]], np.float32)
    found, reports = through(rows_on_the_left(scale), tmp_path, "restore-float")
    assert one(reports, "restore-float").outcome is Outcome.APPLIED
    x = X[:, :4].repeat(2, axis=0)[:4]
    assert np.allclose(ran(found, {"x": x})[0], (WEIGHT[:4, :4] * scale) @ x, rtol=1e-4)


def test_scales_along_another_axis_than_the_channels_leave_the_model_alone(tmp_path: Path) -> None:
    _, reports = through(rows_on_the_left([1, 2, 3, 4]), tmp_path, "restore-float")
    report = one(reports, "restore-float")
    assert report.outcome is Outcome.NOT_APPLIED
    assert "not those of its channels" in report.why


def test_a_bias_that_is_divided_by_another_scale_leaves_the_model_alone(tmp_path: Path) -> None:
    made = dense()
    del made.graph.node[:]
    made.graph.node.extend(
        [
            helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "xs", "xz"]),
            helper.make_node("MatMulInteger", ["q", "w", "xz", "wz"], ["i"]),
            helper.make_node("Mul", ["xs", "ws"], ["s"]),
            helper.make_node("Div", ["b", "ws"], ["d"]),
            helper.make_node("Cast", ["d"], ["bi"], to=onnx.TensorProto.INT32),
            helper.make_node("Add", ["i", "bi"], ["ib"]),
            helper.make_node("Cast", ["ib"], ["f"], to=onnx.TensorProto.FLOAT),
            helper.make_node("Mul", ["f", "s"], ["y"]),
        ]
    )
    _, reports = through(made, tmp_path, "restore-float")
    report = one(reports, "restore-float")
    assert report.outcome is Outcome.NOT_APPLIED
    assert "another scale than its product" in report.why


def test_a_float_model_has_nothing_to_restore(tmp_path: Path) -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", 1)], [value("y", 1)])
    _, reports = through(made, tmp_path, "restore-float")
    assert one(reports, "restore-float").outcome is Outcome.NOTHING_TO_DO
