"""Compute what is constant once, and take in the branch of an If whose condition is known.

Each uncovers more of the other, so both go on until neither finds anything.
"""

from __future__ import annotations

import onnx

from workers.repair.base import Ground
from workers.repair.branches import inner_graphs
from workers.repair.deciding import count, fold

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
    before = len(model.graph.node)
    branches = fold(model)
    if len(model.graph.node) == before and not branches:
        return None
    left = count(model.graph, "If")
    told = f"{before} nodes became {len(model.graph.node)}"
    if branches:
        told += f"; {branches} times an If gave way to its branch"
    return f"{told}; {left} If remain" if left else told


def _is_needed(model: onnx.ModelProto, ground: Ground) -> bool:
    if ground.fixed or any(True for node in model.graph.node for _ in inner_graphs(node)):
        return True
    return any(tensor.data_type in NOT_IMPORTED for tensor in model.graph.initializer)
