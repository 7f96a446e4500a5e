"""Data types at the edges: narrow, wide, new, mixed."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from bench.hostile.made import (
    GEMM_NOT_75,
    INT64,
    ORT,
    RTX86,
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

_BF16, _DOUBLE, _HALF = TensorProto.BFLOAT16, TensorProto.DOUBLE, TensorProto.FLOAT16


def _sentinels(axes: str) -> onnx.ModelProto:
    nodes = [
        node("Slice", ["x", "start", "end", axes], ["s"]),
        node("Add", ["id", "big"], ["wide"]),
        node("Relu", ["s"], ["y"]),
    ]
    return model(
        nodes,
        inputs=[info("x", ["n", 16]), info("id", ["n", 1], INT64)],
        outputs=[info("y", ["n", 16]), info("wide", ["n", 1], INT64)],
        weights=[
            whole("start", 0),
            whole("end", 2**63 - 1),
            whole("axes", 1),
            whole("big", 2**40),
        ],
    )


def _byte_mask() -> onnx.ModelProto:
    mask = tensor("mask", TensorProto.UINT8, [16], [1, 0] * 8)
    nodes = [
        node("Cast", ["mask"], ["keep"], to=TensorProto.BOOL),
        node("Where", ["keep", "x", "low"], ["y"]),
    ]
    return model(nodes, weights=[mask, tensor("low", TensorProto.FLOAT, [], [-1e4])])


def _bytes_added() -> onnx.ModelProto:
    kind = TensorProto.UINT8
    return model(
        [node("Add", ["x", "x"], ["y"])],
        inputs=[info("x", ["n", 16], kind)],
        outputs=[info("y", ["n", 16], kind)],
    )


def _short(kind: int) -> onnx.ModelProto:
    return model(
        [node("Add", ["x", "x"], ["y"])],
        inputs=[info("x", ["n", 16], kind)],
        outputs=[info("y", ["n", 16], kind)],
    )


def _short_weight() -> onnx.ModelProto:
    table = tensor("w", TensorProto.INT16, [16], range(16))
    nodes = [node("Cast", ["w"], ["f"], to=TensorProto.FLOAT), node("Add", ["x", "f"], ["y"])]
    return model(nodes, weights=[table])


def _double_inside() -> onnx.ModelProto:
    nodes = [
        node("Cast", ["x"], ["d"], to=_DOUBLE),
        node("MatMul", ["d", "w"], ["m"]),
        node("Cast", ["m"], ["y"], to=TensorProto.FLOAT),
    ]
    return model(nodes, weights=[weight("w", 16, 16, dtype=np.float64)])


def _text() -> onnx.ModelProto:
    return model(
        [node("Identity", ["x"], ["y"])],
        inputs=[info("x", ["n", 16], TensorProto.STRING)],
        outputs=[info("y", ["n", 16], TensorProto.STRING)],
    )


def _int4() -> onnx.ModelProto:
    weights = [
        tensor("w", TensorProto.INT4, [64, 32], np.resize(np.arange(-8, 8), 64 * 32)),
        weight("s", 4, 32),
    ]
    nodes = [
        node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=16),
        node("MatMul", ["x", "d"], ["y"]),
    ]
    return model(
        nodes,
        inputs=[info("x", ["n", 64])],
        outputs=[info("y", ["n", 32])],
        weights=weights,
        opset=21,
        ir_version=10,
    )


def _bf16() -> onnx.ModelProto:
    values = np.random.default_rng(0).standard_normal(256)
    return model(
        [node("MatMul", ["x", "w"], ["y"])],
        inputs=[info("x", ["n", 16], _BF16)],
        outputs=[info("y", ["n", 16], _BF16)],
        weights=[tensor("w", _BF16, [16, 16], values)],
        opset=22,
        ir_version=10,
    )


def _fp8() -> onnx.ModelProto:
    weights = [
        weight("w", 16, 16),
        tensor("s", TensorProto.FLOAT, [], [0.1]),
        tensor("z", TensorProto.FLOAT8E4M3FN, [], [0.0]),
    ]
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("QuantizeLinear", ["w", "s", "z"], ["wq"]),
        node("DequantizeLinear", ["wq", "s", "z"], ["wd"]),
        node("MatMul", ["d", "wd"], ["y"]),
    ]
    return model(nodes, weights=weights, opset=19)


def _mixed() -> onnx.ModelProto:
    half = weight("w", 16, dtype=np.float16)
    return model([node("Add", ["x", "w"], ["y"])], weights=[half])


def _half() -> onnx.ModelProto:
    return model(
        [node("MatMul", ["x", "w"], ["y"])],
        inputs=[info("x", ["n", 16], _HALF)],
        outputs=[info("y", ["n", 16], _HALF)],
        weights=[weight("w", 16, 16, dtype=np.float16)],
    )


_PAIR = [{"x": ranged([1, 16], [4, 16], [8, 16]), "id": ranged([1, 1], [4, 1], [8, 1])}]
_WIDE = [{"x": ranged([1, 64], [4, 64], [8, 64])}]
CASES = (
    Case(
        "int64 beyond int32, and ends",
        "types",
        lambda: _sentinels("axes"),
        everywhere(None),
        _PAIR,
    ),
    Case(
        "a slice without axes",
        "types",
        lambda: _sentinels(""),
        only_rtx("unsupported_operator_use"),
        _PAIR,
    ),
    Case("a mask of bytes", "types", _byte_mask, everywhere(None)),
    Case("bytes are added", "types", _bytes_added, only_rtx("unsupported_operator")),
    Case(
        "int16 all through",
        "types",
        lambda: _short(TensorProto.INT16),
        only_rtx("unsupported_data_type"),
    ),
    Case(
        "uint64 all through",
        "types",
        lambda: _short(TensorProto.UINT64),
        only_rtx("unsupported_data_type"),
    ),
    Case("a weight of int16", "types", _short_weight, only_rtx("unsupported_initializer")),
    Case("double inside only", "types", _double_inside, everywhere(None) | GEMM_NOT_75),
    Case("texts", "types", _text, only_rtx("unsupported_data_type")),
    Case("int4 weights in blocks", "types", _int4, everywhere(None) | GEMM_NOT_75, _WIDE),
    Case(
        "bf16",
        "types",
        _bf16,
        everywhere(None) | {ORT: "unsupported_operator"} | GEMM_NOT_75,
    ),
    Case(
        "fp8",
        "types",
        _fp8,
        everywhere(None) | GEMM_NOT_75 | {RTX86: "precision_not_on_architecture"},
    ),
    Case("types are mixed", "types", _mixed, everywhere("mixed_types")),
    Case("fp16 all through", "types", _half, everywhere(None)),
)
