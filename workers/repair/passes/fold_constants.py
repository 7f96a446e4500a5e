"""Compute what is constant once, and take in the branch of an If whose condition is known.

Each uncovers more of the other, so both go on until neither finds anything.
"""

from __future__ import annotations

import onnx

from enginefarm.counted import counted
from workers.repair.base import Ground
from workers.repair.branches import count_nodes, inner_graphs
from workers.repair.deciding import count, fold


def run(model: onnx.ModelProto, ground: Ground) -> str | None:
    """Fold where the graph branches, or where an input was fixed."""
    if not _is_needed(model, ground):
        return None
    before, outer = count_nodes(model.graph), len(model.graph.node)
    decided = fold(model)
    if len(model.graph.node) == outer and not decided.taken:
        return None
    left = count(model.graph, "If")
    told = f"{counted(before, 'node')} became {count_nodes(model.graph)}"
    if decided.taken:
        told += f"; {counted(decided.taken, 'time')} an If gave way to its branch"
    told = f"{told}; {counted(left, 'If remains', 'If remain')}" if left else told
    if decided.left:
        left_in = counted(len(decided.left), "is decided", "are decided")
        told += f", of which {left_in} and could not be taken in"
    return told


def _is_needed(model: onnx.ModelProto, ground: Ground) -> bool:
    return bool(ground.fixed) or any(True for row in model.graph.node for _ in inner_graphs(row))
