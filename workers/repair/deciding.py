"""Fold a graph and take in what branches are decided by it, until nothing more follows."""

from __future__ import annotations

import onnx
from onnx import numpy_helper

from workers.repair.base import NotApplied
from workers.repair.branches import inner_graphs, take_in
from workers.repair.folding import Constants
from workers.repair.tidy import remove_unread

MOST_ROUNDS = 64
MOST_WORK = 4_000_000
"""Branches times nodes: each branch that is taken in writes the graph anew."""


def fold(model: onnx.ModelProto) -> int:
    """Change the model in place; return how many times an If gave way to its branch.

    Raises:
        NotApplied: so many branches are decided that it would take too long.
    """
    branches = work = 0
    for _ in range(MOST_ROUNDS):
        constants = Constants(model)
        folded = _fold(model.graph, constants)
        known = _known(model.graph, constants)
        work += len(known) * _size(model.graph)
        if work > MOST_WORK:
            raise NotApplied(f"{branches + len(known)} branches are too many to take in")
        taken = _take_in(model.graph, known)
        branches += taken
        if not folded and not taken:
            break
        remove_unread(model.graph)
    return branches


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


def _known(graph: onnx.GraphProto, constants: Constants) -> list[tuple[list[str], bool]]:
    """Return the outputs of every If whose condition is known by now, and that condition."""
    return [
        (list(node.output), bool(value.ravel()[0]))
        for node in graph.node
        if node.op_type == "If"
        for value in [constants.value(node.input[0])]
        if value is not None
    ]


def _size(graph: onnx.GraphProto) -> int:
    """Return how many nodes a graph has, with those of the graphs inside it."""
    inner = sum(_size(each) for node in graph.node for each in inner_graphs(node))
    return len(graph.node) + inner


def _take_in(graph: onnx.GraphProto, known: list[tuple[list[str], bool]]) -> int:
    """Take in the branches that are chosen."""
    for outputs, condition in known:
        here = next(row for row in graph.node if list(row.output) == outputs)
        take_in(graph, here, condition=condition)
    return len(known)


def count(graph: onnx.GraphProto, op_type: str) -> int:
    """Return how many nodes of a kind a graph has, with those of the graphs inside it."""
    found = sum(1 for node in graph.node if node.op_type == op_type)
    return found + sum(count(g, op_type) for node in graph.node for g in inner_graphs(node))
