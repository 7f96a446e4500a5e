"""Shapes and profiles that contradict each other; quantization that a compiler does not take."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from bench.hostile.made import (
    FLOAT,
    GEMM_NOT_75,
    INT64,
    Case,
    everywhere,
    info,
    model,
    node,
    only_rtx,
    ranged,
    tensor,
    weight,
    whole,
)


def _baked() -> onnx.ModelProto:
    nodes = [node("Reshape", ["x", "shape"], ["r"], name="view"), node("Relu", ["r"], ["y"])]
    return model(nodes, weights=[whole("shape", 2, 16)])


def _relu(shape: list[int | str]) -> onnx.ModelProto:
    return model(
        [node("Relu", ["x"], ["y"])], inputs=[info("x", shape)], outputs=[info("y", shape)]
    )


def _sized_by_input() -> onnx.ModelProto:
    return model(
        [node("Slice", ["x", "zero", "keep", "one"], ["y"])],
        inputs=[info("x", ["n", 16]), info("keep", [1], INT64)],
        outputs=[info("y", ["n", "m"])],
        weights=[whole("zero", 0), whole("one", 1)],
    )


def _sized_by_data() -> onnx.ModelProto:
    nodes = [
        node("ReduceMax", ["x"], ["top"], keepdims=0),
        node("Cast", ["top"], ["count"], to=INT64),
        node("Unsqueeze", ["count", "zero"], ["end"]),
        node("Slice", ["x", "zero", "end", "one"], ["y"]),
    ]
    return model(
        nodes, outputs=[info("y", ["n", "m"])], weights=[whole("zero", 0), whole("one", 1)]
    )


def _two_inputs(name: str) -> onnx.ModelProto:
    nodes = [node("ReduceSum", ["z"], ["s"], keepdims=0), node("Add", ["x", "s"], ["y"])]
    return model(
        nodes, inputs=[info("x", [name, 16]), info("z", [name, 8])], outputs=[info("y", None)]
    )


def _image(kernel: int) -> onnx.ModelProto:
    return model(
        [node("Conv", ["x", "w"], ["y"], name="wide")],
        inputs=[info("x", ["n", 3, "h", "w"])],
        outputs=[info("y", None)],
        weights=[weight("w", 4, 3, kernel, kernel)],
    )


def _qdq(zero: int = 0, scale: float = 0.1, kind: int = TensorProto.INT8) -> onnx.ModelProto:
    weights = [
        weight("w", 16, 16),
        tensor("s", FLOAT, [], [scale]),
        tensor("z", kind, [], [zero]),
        tensor("ws", FLOAT, [], [0.1]),
        tensor("wz", TensorProto.INT8, [], [0]),
    ]
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("QuantizeLinear", ["w", "ws", "wz"], ["wq"]),
        node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"]),
        node("MatMul", ["d", "wd"], ["y"]),
    ]
    return model(nodes, weights=weights)


def _quantized_bias() -> onnx.ModelProto:
    made = _qdq()
    made.graph.node[-1].output[0] = "m"
    made.graph.node.append(
        node("DequantizeLinear", ["b", "bs"], ["bd"], name="bias_DequantizeLinear")
    )
    made.graph.node.append(node("Add", ["m", "bd"], ["y"]))
    made.graph.initializer.append(tensor("b", TensorProto.INT32, [16], [1] * 16))
    made.graph.initializer.append(tensor("bs", FLOAT, [], [0.01]))
    return made


def _with_weight(value: float) -> onnx.ModelProto:
    values = np.ones((16, 16), np.float32)
    values[0, 0] = value
    return model(
        [node("Mul", ["x", "w"], ["y"])],
        inputs=[info("x", ["n", 16, 16])],
        outputs=[info("y", ["n", 16, 16])],
        weights=[numpy_helper.from_array(values, "w")],
    )


_CUBE = [{"x": ranged([1, 16, 16], [2, 16, 16], [4, 16, 16])}]
_ONE = ranged([1, 16], [4, 16], [8, 16])
CASES = (
    Case("a batch baked in", "shape-profile", _baked, everywhere("shape_mismatch")),
    Case(
        "a static model, a dynamic profile",
        "shape-profile",
        lambda: _relu([1, 3, 32, 32]),
        everywhere("profile_static_mismatch"),
        [{"x": ranged([1, 3, 32, 32], [5, 3, 32, 32], [10, 3, 32, 32])}],
    ),
    Case(
        "usual above largest",
        "shape-profile",
        lambda: _relu(["n", 16]),
        everywhere("profile_order"),
        [{"x": ranged([1, 16], [1600, 16], [800, 16])}],
    ),
    Case(
        "from nothing upwards",
        "shape-profile",
        lambda: _relu(["n", 16]),
        everywhere("profile_zero_dim"),
        [{"x": ranged([0, 16], [4, 16], [8, 16])}],
    ),
    Case(
        "an input that is a size", "shape-profile", _sized_by_input, only_rtx("shape_tensor_input")
    ),
    Case("data that is a size", "shape-profile", _sized_by_data, everywhere(None)),
    Case(
        "one name, two sizes",
        "shape-profile",
        lambda: _two_inputs("n"),
        everywhere("profile_dim_conflict"),
        [{"x": ranged([1, 16], [2, 16], [2, 16]), "z": ranged([4, 8], [4, 8], [8, 8])}],
    ),
    Case(
        "? for two sizes",
        "shape-profile",
        lambda: _two_inputs("?"),
        only_rtx("profile_dim_conflict"),
        [{"x": ranged([1, 16], [2, 16], [2, 16]), "z": ranged([4, 8], [4, 8], [8, 8])}],
    ),
    Case(
        "no profile",
        "shape-profile",
        lambda: _relu(["n", 16]),
        everywhere("profile_required"),
        [],
    ),
    Case(
        "an image smaller than the window",
        "shape-profile",
        lambda: _image(9),
        everywhere("shape_mismatch"),
        [{"x": ranged([1, 3, 4, 4], [1, 3, 32, 32], [2, 3, 64, 64])}],
    ),
    Case(
        "an input forgotten",
        "shape-profile",
        lambda: _two_inputs("n"),
        everywhere("profile_missing_input"),
        [{"x": _ONE}],
    ),
    Case("symmetric int8", "quantization", _qdq, everywhere(None) | GEMM_NOT_75),
    Case("a zero point", "quantization", lambda: _qdq(zero=3), only_rtx("quantization_asymmetric")),
    Case(
        "bytes around 128",
        "quantization",
        lambda: _qdq(zero=128, kind=TensorProto.UINT8),
        only_rtx("quantization_asymmetric"),
    ),
    Case(
        "a scale below zero",
        "quantization",
        lambda: _qdq(scale=-0.1),
        only_rtx("quantization_scale_invalid"),
    ),
    Case("a quantized bias", "quantization", _quantized_bias, only_rtx("quantization_bias")),
    Case(
        "NaN in a weight", "precision", lambda: _with_weight(float("nan")), everywhere(None), _CUBE
    ),
    Case(
        "infinity in a weight",
        "precision",
        lambda: _with_weight(float("-inf")),
        everywhere(None),
        _CUBE,
    ),
    Case("more than fp16 holds", "precision", lambda: _with_weight(1e12), everywhere(None), _CUBE),
)
