"""Files that are no models, or only nearly: cut, doubled, empty, with data elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from bench.hostile.made import GEMM_NOT_75, Case, everywhere, info, model, node, weight


def _small() -> onnx.ModelProto:
    return model([node("MatMul", ["x", "w"], ["y"])], weights=[weight("w", 16, 16)])


def _outside(folder: Path, location: str, *, written: bool) -> Path:
    made, place = _small(), folder / "inner"
    place.mkdir()
    tensor = made.graph.initializer[0]
    data = tensor.raw_data
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    if written:
        (place / location).resolve().write_bytes(data)
    path = place / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def _cut(folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(_small().SerializeToString()[:-200])
    return path


def _twice() -> onnx.ModelProto:
    nodes = [node("Relu", ["x"], ["t"]), node("Neg", ["x"], ["t"]), node("Abs", ["t"], ["y"])]
    return model(nodes)


def _listed_weights() -> onnx.ModelProto:
    return model(
        [node("MatMul", ["x", "w"], ["y"])],
        inputs=[info("x", ["n", 16]), info("w", [16, 16])],
        weights=[weight("w", 16, 16)],
        opset=9,
        ir_version=3,
    )


def _shuffled() -> onnx.ModelProto:
    return model([node("Relu", ["t"], ["y"]), node("Neg", ["x"], ["t"])])


def _tied() -> onnx.ModelProto:
    table = np.random.default_rng(0).standard_normal((2048, 160)).astype(np.float32)
    weights = [
        onnx.numpy_helper.from_array(table, "embedding"),
        onnx.numpy_helper.from_array(np.ascontiguousarray(table.T), "head"),
    ]
    nodes = [node("Gather", ["embedding", "x"], ["e"]), node("MatMul", ["e", "head"], ["y"])]
    return model(
        nodes,
        inputs=[info("x", ["n", 16], TensorProto.INT64)],
        outputs=[info("y", ["n", 16, 2048])],
        weights=weights,
    )


CASES = (
    Case(
        "data named by a path upwards",
        "model-file",
        lambda folder: _outside(folder, "../weights.bin", written=True),
        everywhere("external_path_escapes"),
        writes=True,
    ),
    Case(
        "data that did not come",
        "model-file",
        lambda folder: _outside(folder, "weights.bin", written=False),
        everywhere("external_data_missing"),
        writes=True,
    ),
    Case("cut in the middle", "model-file", _cut, everywhere("model_truncated"), writes=True),
    Case("one name for two tensors", "model-file", _twice, everywhere("invalid_graph")),
    Case("nodes out of order", "model-file", _shuffled, everywhere("invalid_graph")),
    Case("weights listed as inputs", "model-file", _listed_weights, everywhere(None) | GEMM_NOT_75),
    Case(
        "opset from the future",
        "model-file",
        lambda: model([node("Relu", ["x"], ["y"])], opset=99),
        everywhere("unsupported_opset"),
    ),
    Case(
        "no nodes",
        "model-file",
        lambda: model([], outputs=[info("x", ["n", 16])]),
        everywhere("empty_graph"),
    ),
    Case("tied weights written twice", "model-file", _tied, everywhere(None) | GEMM_NOT_75),
)
