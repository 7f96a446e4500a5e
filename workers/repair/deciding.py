"""Fold a graph and take in what branches are decided by it, until nothing more follows."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import onnx
from onnx import numpy_helper

from workers.repair.branches import Names, can_take_in, inner_graphs, take_in
from workers.repair.folding import Constants
from workers.repair.tidy import remove_unread

MOST_ROUNDS = 64


@dataclass
class Decided:
    """How many Ifs gave way to a branch, and which could not though they are decided."""

    taken: int = 0
    left: set[str] = field(default_factory=set)


def fold(model: onnx.ModelProto) -> Decided:
    """Change the model in place.

    One round goes once through all nodes, with those of branches in their places; another follows
    only because shapes may be known by then that were not.
    """
    decided = Decided()
    for _ in range(MOST_ROUNDS):
        walk = _Walk(model.graph, Constants(model), decided)
        if not walk.through():
            break
        remove_unread(model.graph)
    return decided


class _Walk:
    """One way through a graph: what is constant becomes a weight, a decided If its branch."""

    def __init__(self, graph: onnx.GraphProto, constants: Constants, decided: Decided) -> None:
        self._graph = graph
        self._constants = constants
        self._decided = decided
        self._names = Names(graph)
        self._outputs = {value.name for value in graph.output}
        self._known = {tensor.name for tensor in graph.initializer}
        self._kept: list[onnx.NodeProto] = []
        self._changes = 0

    def through(self) -> int:
        """Go through; return how much has changed."""
        # Copies, since a list of nodes does not outlive the graph it is taken from.
        pending = deque(onnx.NodeProto.FromString(n.SerializeToString()) for n in self._graph.node)
        while pending:
            node = pending.popleft()
            taken = self._branch(node)
            if taken is not None:
                pending.extendleft(reversed(taken))
            elif not self._folded(node):
                self._kept.append(node)
        if self._changes:
            del self._graph.node[:]
            self._graph.node.extend(self._kept)
        return self._changes

    def _branch(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """Return the nodes of the branch that an If is known to take, if it can be taken in."""
        value = self._constants.value(node.input[0]) if node.op_type == "If" else None
        if value is None:
            return None
        condition = bool(value.ravel()[0])
        if not can_take_in(node, condition=condition):
            self._decided.left.add(node.output[0])
            return None
        taken = take_in(node, self._names, condition=condition)
        self._graph.initializer.extend(taken.weights)
        self._graph.sparse_initializer.extend(taken.sparse)
        self._graph.value_info.extend(taken.infos)
        self._constants.admit(taken.weights)
        self._known |= {tensor.name for tensor in taken.weights}
        self._decided.taken += 1
        self._changes += 1
        return taken.nodes

    def _folded(self, node: onnx.NodeProto) -> bool:
        """Make a weight of what is always the same; what made it is removed as unread."""
        found = self._constants.learn(node)
        name = node.output[0] if node.output else ""
        if found is None or name in self._outputs or name in self._known:
            return False
        self._graph.initializer.append(numpy_helper.from_array(found, name))
        self._changes += 1
        return True


def count(graph: onnx.GraphProto, op_type: str) -> int:
    """Return how many nodes of a kind a graph has, with those of the graphs inside it."""
    found = sum(1 for node in graph.node if node.op_type == op_type)
    return found + sum(count(g, op_type) for node in graph.node for g in inner_graphs(node))
