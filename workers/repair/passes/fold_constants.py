"""Compute what is constant once, and take in the branch of an If whose condition is known.

Each uncovers more of the other, so both go on until neither finds anything.
"""

from __future__ import annotations

import onnx
from onnx import numpy_helper

from workers.repair.base import Ground
from workers.repair.branches import inner_graphs, take_in
from workers.repair.folding import Constants
from workers.repair.tidy import remove_unread

MOST_ROUNDS = 64
NOT_IMPORTED = frozenset(
    {
        onnx.TensorProto.UINT8,
        onnx.TensorProto.UINT16,
        onnx.TensorProto.UINT32,
        onnx.TensorProto.UINT64,
        onnx.TensorProto.INT16,
        onnx.TensorProto.DOUBLE,
    }
)
"""Types of weights that TensorRT's parser does not import, or only in part."""


def run(model: onnx.ModelProto, ground: Ground) -> str | None:
    """Fold where the graph branches, or holds weights of a type that is not imported."""
    if not _is_needed(model, ground):
        return None
    before, branches = len(model.graph.node), 0
    for _ in range(MOST_ROUNDS):
        constants = Constants(model)
        folded = _fold(model.graph, constants)
        taken = _take_known(model.graph, constants)
        branches += taken
        if not folded and not taken:
            break
        remove_unread(model.graph)
    if len(model.graph.node) == before and not branches:
        return None
    left = _count(model.graph, "If")
    told = f"{before} nodes became {len(model.graph.node)}"
    if branches:
        told += f"; {branches} times an If gave way to its branch"
    return f"{told}; {left} If remain" if left else told


def _is_needed(model: onnx.ModelProto, ground: Ground) -> bool:
    if ground.fixed or any(True for node in model.graph.node for _ in inner_graphs(node)):
        return True
    return any(tensor.data_type in NOT_IMPORTED for tensor in model.graph.initializer)


def _fold(graph: onnx.GraphProto, constants: Constants) -> int:
    """Make weights of the outputs that are always the same; what made them is removed as unread."""
    outputs = {value.name for value in graph.output}
    known = {tensor.name for tensor in graph.initializer}
    kept, folded = [], 0
    for node in graph.node:
        found = constants.learn(node)
        name = node.output[0] if node.output else ""
        if found is None or name in outputs or name in known:
            kept.append(onnx.NodeProto.FromString(node.SerializeToString()))
            continue
        graph.initializer.append(numpy_helper.from_array(found, name))
        folded += 1
    if folded:
        del graph.node[:]
        graph.node.extend(kept)
    return folded


def _take_known(graph: onnx.GraphProto, constants: Constants) -> int:
    """Take in every branch whose condition is known by now."""
    known = [
        (list(node.output), bool(value.ravel()[0]))
        for node in graph.node
        if node.op_type == "If"
        for value in [constants.value(node.input[0])]
        if value is not None
    ]
    for outputs, condition in known:
        here = next(row for row in graph.node if list(row.output) == outputs)
        take_in(graph, here, condition=condition)
    return len(known)


def _count(graph: onnx.GraphProto, op_type: str) -> int:
    found = sum(1 for node in graph.node if node.op_type == op_type)
    return found + sum(_count(g, op_type) for node in graph.node for g in inner_graphs(node))
