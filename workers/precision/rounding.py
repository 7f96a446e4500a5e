"""Write a half graph in fp32, each half tensor rounded to half and back: what a GPU computes.

It is the judge of what another tool has cast. ONNX Runtime's kernels on the CPU compute most of a
half graph in fp32 from end to end, and have none for bf16.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from enginefarm.precision import PrecisionKind
from workers.precision.casting import HALVES

_EXACT, _STORED = "_exact", "_stored"


def half_types(model: onnx.ModelProto, kind: PrecisionKind) -> set[str]:
    """Return the names of the tensors that are half, as far as ONNX can tell."""
    return _halves(_inferred(model).graph, HALVES[kind].number)


def half_interface(model: onnx.ModelProto, kind: PrecisionKind) -> list[str]:
    """Return the inputs and outputs of a model that are half."""
    rows = [*model.graph.input, *model.graph.output]
    number = HALVES[kind].number
    return [row.name for row in rows if row.type.tensor_type.elem_type == number]


def rounded(model: onnx.ModelProto, kind: PrecisionKind) -> onnx.ModelProto:
    """Return the same graph in fp32, its values those that half would have held.

    The interface of ``model`` must not be half.
    """
    made = _inferred(model)
    _round(made.graph, HALVES[kind].number)
    return made


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    inferred: onnx.ModelProto = onnx.shape_inference.infer_shapes(bare)
    for row, known in zip(inferred.graph.output, model.graph.output, strict=True):
        row.CopyFrom(known)
    return inferred


def _halves(graph: onnx.GraphProto, number: int) -> set[str]:
    rows = [*graph.input, *graph.value_info, *graph.output]
    found = {row.name for row in rows if row.type.tensor_type.elem_type == number}
    return found | {row.name for row in graph.initializer if row.data_type == number}


def _round(graph: onnx.GraphProto, number: int) -> None:
    """Rewrite a graph, and those within its nodes."""
    halves = _halves(graph, number)
    for weight in graph.initializer:
        if weight.data_type == number:
            weight.CopyFrom(_wide(weight))
    nodes = [each for node in graph.node for each in _rounded(node, halves, number)]
    del graph.node[:]
    graph.node.extend(nodes)
    for row in (*graph.input, *graph.output):
        if row.name in halves:
            row.type.tensor_type.elem_type = TensorProto.FLOAT
    del graph.value_info[:]


def _wide(weight: TensorProto) -> TensorProto:
    return numpy_helper.from_array(numpy_helper.to_array(weight).astype(np.float32), weight.name)


def _rounded(node: onnx.NodeProto, halves: set[str], number: int) -> Iterator[onnx.NodeProto]:
    """Yield a node in fp32, and behind it the rounding of each output that was half."""
    wide = onnx.NodeProto()
    wide.CopyFrom(node)
    for row in wide.attribute:
        if row.HasField("t") and row.t.data_type == number:
            row.t.CopyFrom(_wide(row.t))
        elif row.name in {"to", "dtype"} and row.i == number:
            row.i = TensorProto.FLOAT
        for inner in [row.g] if row.HasField("g") else list(row.graphs):
            _round(inner, number)
    behind: list[onnx.NodeProto] = []
    for place, name in enumerate(node.output):
        if name not in halves:
            continue
        wide.output[place] = name + _EXACT
        behind += [
            helper.make_node("Cast", [name + _EXACT], [name + _STORED], to=number),
            helper.make_node("Cast", [name + _STORED], [name], to=TensorProto.FLOAT),
        ]
    yield wide
    yield from behind
