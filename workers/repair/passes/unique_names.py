"""Give every node a name of its own; ONNX Runtime refuses two of one name.

Two tensors of one name are refused before: which of them a reader means is not ours to decide.
"""

from __future__ import annotations

import onnx

from enginefarm.counted import counted
from workers.repair.base import Ground


def run(model: onnx.ModelProto, _ground: Ground) -> str | None:
    """Rename the second and later nodes of one name."""
    graph = model.graph
    taken = {node.name for node in graph.node}
    seen: set[str] = set()
    renamed = 0
    for node in graph.node:
        if node.name and node.name in seen:
            node.name = _free(node.name, taken)
            renamed += 1
        seen.add(node.name)
    return f"{counted(renamed, 'node')} had the name of another" if renamed else None


def _free(name: str, taken: set[str]) -> str:
    goal, number = name, 1
    while goal in taken:
        number += 1
        goal = f"{name}_{number}"
    taken.add(goal)
    return goal
