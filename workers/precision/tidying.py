"""What tools want of a graph before they change it: weights as initializers, names on nodes."""

from __future__ import annotations

import onnx
from onnx import TensorProto


def constants_as_weights(graph: onnx.GraphProto) -> None:
    """Make float constants initializers: they are cast and quantized as weights are."""
    kept = []
    for node in graph.node:
        value = next((row.t for row in node.attribute if row.name == "value"), None)
        if node.op_type != "Constant" or value is None or value.data_type != TensorProto.FLOAT:
            kept.append(node)
            continue
        weight = TensorProto()
        weight.CopyFrom(value)
        weight.name = node.output[0]
        graph.initializer.append(weight)
    del graph.node[:]
    graph.node.extend(kept)


def named(graph: onnx.GraphProto) -> None:
    """Give the nodes that have no name one: only by name can a node be left out or told of."""
    taken = {node.name for node in graph.node}
    for place, node in enumerate(graph.node):
        if not node.name:
            name = f"#{place}"
            while name in taken:
                name += "_"
            node.name = name
