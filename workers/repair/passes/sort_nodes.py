"""Put nodes in an order in which each comes after what it reads, as ONNX demands."""

from __future__ import annotations

from collections import deque

import onnx

from enginefarm.counted import counted
from workers.repair.base import Ground, NotApplied
from workers.repair.branches import inner_graphs
from workers.repair.tidy import reads


def run(model: onnx.ModelProto, _ground: Ground) -> str | None:
    """Sort the graph and every graph inside it, where they are not sorted."""
    moved = sort(model.graph)
    return (
        counted(moved, "node stood before what it reads", "nodes stood before what they read")
        if moved
        else None
    )


def sort(graph: onnx.GraphProto) -> int:
    """Sort a graph and those inside it; return how many nodes stood too early.

    Raises:
        NotApplied: nodes read each other in a circle.
    """
    moved = sum(sort(inner) for node in graph.node for inner in inner_graphs(node))
    makers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    needs = [{makers[name] for name in reads(node) if name in makers} for node in graph.node]
    early = sum(any(maker >= i for maker in needed) for i, needed in enumerate(needs))
    if early == 0:
        return moved
    order = _order(needs)
    if len(order) < len(needs):
        raise NotApplied("nodes read each other in a circle")
    nodes = [onnx.NodeProto.FromString(graph.node[i].SerializeToString()) for i in order]
    del graph.node[:]
    graph.node.extend(nodes)
    return moved + early


def _order(needs: list[set[int]]) -> list[int]:
    """Return the places in order, the first ready one first; what is in a circle is left out."""
    waiting = [len(needed) for needed in needs]
    readers: dict[int, list[int]] = {}
    for place, needed in enumerate(needs):
        for maker in needed:
            readers.setdefault(maker, []).append(place)
    ready = deque(place for place, count in enumerate(waiting) if count == 0)
    order = []
    while ready:
        place = ready.popleft()
        order.append(place)
        for reader in readers.get(place, ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    return order
