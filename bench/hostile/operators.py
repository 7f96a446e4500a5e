"""Operators that are not everywhere, and uses of known ones that are not."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import TensorProto, helper

from bench.hostile.made import (
    BOOL,
    GEMM_NOT_75,
    INT64,
    Case,
    everywhere,
    graph_of,
    info,
    model,
    node,
    only_rtx,
    ranged,
    tensor,
    weight,
    whole,
)


def _strange() -> onnx.ModelProto:
    made = [node("Relu", ["x"], ["t"]), node("RotatedNMS", ["t"], ["y"], domain="acme.ops")]
    return model(made, domains=["acme.ops"])


def _unknown() -> onnx.ModelProto:
    return model([node("Relu", ["x"], ["t"]), node("Frobnicate", ["t"], ["y"])])


def _branch(name: str, op: str, out: str, shape: list[int | str], *more: str) -> onnx.GraphProto:
    return graph_of([node(op, ["x", *more], [out])], name, [], [info(out, shape)])


def _choice(other: onnx.GraphProto, shape: list[int | str] | None) -> onnx.ModelProto:
    relu = _branch("then", "Relu", "then_out", ["n", 16])
    nodes = [
        node("Equal", ["k", "one"], ["c"]),
        node("If", ["c"], ["y"], name="choice", then_branch=relu, else_branch=other),
    ]
    return model(
        nodes,
        inputs=[info("x", ["n", 16]), info("k", [], INT64)],
        outputs=[info("y", shape)],
        weights=[whole("one", 1, shape=[]), whole("axis", 1)],
    )


def _nested() -> onnx.ModelProto:
    inner = node(
        "If",
        ["c"],
        ["else_out"],
        name="inner",
        then_branch=_branch("a", "Neg", "a_out", ["n", 16]),
        else_branch=_branch("b", "Abs", "b_out", ["n", 16]),
    )
    return _choice(graph_of([inner], "else", [], [info("else_out", ["n", 16])]), ["n", 16])


def _loop(*body: onnx.NodeProto, trip: str = "trip") -> onnx.ModelProto:
    carried = [info("i", [], INT64), info("go", [], BOOL), info("v", ["m", 16])]
    outs = [info("go_on", [], BOOL), info("w", ["k", 16])]
    inner = graph_of(body, "body", carried, outs)
    weights = [whole("trip", 3, shape=[]), tensor("yes", BOOL, [], [1])]
    return model(
        [node("Loop", [trip, "yes", "x"], ["y"], name="loop", body=inner)],
        outputs=[info("y", ["k", 16])],
        weights=weights,
    )


_KEEP = node("Identity", ["go"], ["go_on"])


def _until() -> onnx.ModelProto:
    limit = tensor("l", TensorProto.FLOAT, [], [100.0])
    return _loop(
        node("Add", ["v", "x"], ["w"]),
        node("ReduceMax", ["w"], ["top"], keepdims=0),
        node("Constant", [], ["limit"], value=limit),
        node("Less", ["top", "limit"], ["go_on"]),
        trip="",
    )


def _topk(count: int) -> onnx.ModelProto:
    return model(
        [node("TopK", ["x", "k"], ["y", "at"])],
        inputs=[info("x", ["n", 20000])],
        outputs=[info("y", ["n", count]), info("at", ["n", count], INT64)],
        weights=[whole("k", count)],
    )


def _resize(**attributes: Any) -> onnx.ModelProto:  # noqa: ANN401 - any attribute
    scales = tensor("scales", TensorProto.FLOAT, [4], [1, 1, 2, 2])
    return model(
        [node("Resize", ["x", "", "scales"], ["y"], **attributes)],
        inputs=[info("x", ["n", 3, 16, 16])],
        outputs=[info("y", ["n", 3, 32, 32])],
        weights=[scales],
        opset=18,
    )


def _one(op: str, shape: list[int | str], **attributes: Any) -> onnx.ModelProto:  # noqa: ANN401
    return model([node(op, ["x"], ["y"], **attributes)], outputs=[info("y", shape)])


def _nonzero() -> onnx.ModelProto:
    return model([node("NonZero", ["x"], ["y"])], outputs=[info("y", [2, "k"], INT64)])


def _argmax_pool() -> onnx.ModelProto:
    return model(
        [node("MaxPool", ["x"], ["y", "at"], kernel_shape=[2, 2], strides=[2, 2])],
        inputs=[info("x", ["n", 3, 16, 16])],
        outputs=[info("y", ["n", 3, 8, 8]), info("at", ["n", 3, 8, 8], INT64)],
    )


def _free_axes() -> onnx.ModelProto:
    nodes = [
        node("ReduceSum", ["k", "zero"], ["axis"], keepdims=1),
        node("ReduceSum", ["x", "axis"], ["y"], keepdims=1),
    ]
    return model(
        nodes,
        inputs=[info("x", ["n", 16]), info("k", [1], INT64)],
        outputs=[info("y", None)],
        weights=[whole("zero", 0)],
    )


def _free_scales() -> onnx.ModelProto:
    return model(
        [node("Resize", ["x", "", "scales"], ["y"], mode="nearest")],
        inputs=[info("x", ["n", 3, 16, 16]), info("scales", [4])],
        outputs=[info("y", ["n", 3, "h", "w"])],
        opset=18,
    )


def _same_name() -> onnx.ModelProto:
    function = helper.make_function(
        "mine",
        "Twice",
        ["a"],
        ["b"],
        [node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    made = model([node("Twice", ["x"], ["y"], domain="mine")], domains=["mine"])
    made.functions.append(function)
    return made


def _empty_slice() -> onnx.ModelProto:
    nodes = [
        node("Slice", ["x", "zero", "zero", "one"], ["none"]),
        node("Concat", ["none", "x"], ["y"], axis=1),
    ]
    return model(nodes, weights=[whole("zero", 0), whole("one", 1)])


def _dynamic_int8() -> onnx.ModelProto:
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("MatMulInteger", ["q", "w", "z"], ["i"]),
        node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        node("Mul", ["f", "s"], ["y"]),
    ]
    return model(nodes, weights=[tensor("w", TensorProto.INT8, [16, 16], [1] * 256)])


def _grown() -> onnx.ModelProto:
    return _loop(_KEEP, node("Concat", ["v", "x"], ["w"], axis=0))


_IMAGE = [{"x": ranged([1, 3, 16, 16], [2, 3, 16, 16], [4, 3, 16, 16])}]
_LONG = [{"x": ranged([1, 20000], [2, 20000], [4, 20000])}]
_FLOW = "control_flow_unsupported"
_USE = only_rtx("unsupported_attribute")
CASES = (
    Case("a private operator", "ops", _strange, everywhere("unsupported_operator")),
    Case("an operator nobody knows", "ops", _unknown, everywhere("unsupported_operator")),
    Case("a function of its own", "ops", _same_name, everywhere(None)),
    Case(
        "branches of one shape",
        "ops",
        lambda: _choice(_branch("else", "Neg", "e", ["n", 16]), ["n", 16]),
        everywhere(None),
    ),
    Case(
        "branches of different rank",
        "ops",
        lambda: _choice(_branch("else", "Unsqueeze", "e", ["n", 1, 16], "axis"), None),
        only_rtx(_FLOW),
    ),
    Case("a choice within a choice", "ops", _nested, only_rtx(_FLOW)),
    Case(
        "a loop of three turns",
        "ops",
        lambda: _loop(_KEEP, node("Add", ["v", "x"], ["w"])),
        everywhere(None),
    ),
    Case("a loop that the data ends", "ops", _until, everywhere(None)),
    Case("a loop that grows", "ops", _grown, only_rtx(_FLOW)),
    Case("TopK of 5000", "ops", lambda: _topk(5000), only_rtx("topk_too_large"), _LONG),
    Case("TopK of 3840", "ops", lambda: _topk(3840), everywhere(None), _LONG),
    Case(
        "Resize as TensorFlow did",
        "ops",
        lambda: _resize(
            mode="nearest",
            coordinate_transformation_mode="tf_half_pixel_for_nn",
            nearest_mode="floor",
        ),
        _USE,
        _IMAGE,
    ),
    Case(
        "Resize with antialiasing", "ops", lambda: _resize(mode="linear", antialias=1), _USE, _IMAGE
    ),
    Case("Resize, cubic", "ops", lambda: _resize(mode="cubic"), everywhere(None), _IMAGE),
    Case("NonZero", "ops", _nonzero, only_rtx("data_dependent_shape")),
    Case(
        "pooling that tells where",
        "ops",
        _argmax_pool,
        only_rtx("unsupported_operator_use"),
        _IMAGE,
    ),
    Case("axes from an input", "ops", _free_axes, only_rtx("unsupported_operator_input")),
    Case(
        "scales from an input",
        "ops",
        _free_scales,
        only_rtx("unsupported_operator_input"),
        _IMAGE,
    ),
    Case(
        "Mod of floats",
        "ops",
        lambda: model([node("Mod", ["x", "x"], ["y"], fmod=0)]),
        everywhere("unsupported_attribute"),
    ),
    Case(
        "newer than its opset",
        "ops",
        lambda: model([node("Gelu", ["x"], ["y"])]),
        everywhere("unsupported_operator"),
    ),
    Case(
        "a whole axis as a float",
        "ops",
        lambda: model([node("Softmax", ["x"], ["y"], axis=1.0)]),
        everywhere("unsupported_attribute"),
    ),
    Case(
        "an axis that is lacking",
        "ops",
        lambda: model([node("Concat", ["x", "x"], ["y"])]),
        everywhere("invalid_graph"),
    ),
    Case("an empty slice", "ops", _empty_slice, everywhere(None)),
    Case("quantized as it runs", "ops", _dynamic_int8, only_rtx("unsupported_operator")),
    Case(
        "Det",
        "ops",
        lambda: model(
            [node("Det", ["x"], ["y"])], inputs=[info("x", ["n", 4, 4])], outputs=[info("y", ["n"])]
        ),
        only_rtx("unsupported_operator"),
        [{"x": ranged([1, 4, 4], [2, 4, 4], [4, 4, 4])}],
    ),
    Case("Softmax", "ops", lambda: _one("Softmax", ["n", 16], axis=-1), everywhere(None)),
    Case(
        "fp32 matrices",
        "ops",
        lambda: model([node("MatMul", ["x", "w"], ["y"])], weights=[weight("w", 16, 16)]),
        everywhere(None) | GEMM_NOT_75,
    ),
)
