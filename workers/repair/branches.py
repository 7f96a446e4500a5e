"""Take branches of Ifs into the graph around them, each in time that follows from its own size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import onnx


@dataclass(frozen=True)
class Taken:
    """What stands in an If's place: nodes in order, and what the graph gets with them."""

    nodes: list[onnx.NodeProto]
    weights: list[onnx.TensorProto]
    sparse: list[onnx.SparseTensorProto]
    infos: list[onnx.ValueInfoProto]


class Names:
    """How often each name of a graph is defined or read: by the graph itself, and by each node."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        """Count once; what is taken in later is counted as it comes."""
        self._count = Counter(_own(graph))
        for node in graph.node:
            self.add(node)

    def add(self, node: onnx.NodeProto) -> None:
        """Count what a node, with the graphs inside it, defines or reads."""
        self._count.update(of_node(node))

    def remove(self, node: onnx.NodeProto) -> None:
        """Count a node no more."""
        self._count.subtract(of_node(node))

    def keep(self, name: str) -> None:
        """Let a name be nobody else's."""
        self._count[name] += 1

    def free(self, name: str) -> str:
        """Return a name that nothing has, the given one if it may be; it is had from now on."""
        goal, number = name, 1
        while self._count[goal] > 0:
            number += 1
            goal = f"{name}__{number}"
        self._count[goal] += 1
        return goal


def take_in(node: onnx.NodeProto, names: Names, *, condition: bool) -> Taken:
    """Return what replaces an If that goes one way; its outputs keep their names."""
    branch = _chosen(node, condition=condition)
    names.remove(node)
    for name in {*node.input, *node.output}:
        names.keep(name)
    _rename(branch, {name: names.free(name) for name in _defined(branch)})
    nodes = list(branch.node)
    for row in nodes:
        row.name = names.free(row.name) if row.name else ""
    nodes += [
        onnx.helper.make_node("Identity", [value.name], [name], name=names.free(f"{name}_taken"))
        for value, name in zip(branch.output, node.output, strict=True)
        if name
    ]
    for row in nodes:
        names.add(row)
    return Taken(
        nodes, list(branch.initializer), list(branch.sparse_initializer), list(branch.value_info)
    )


def can_take_in(node: onnx.NodeProto, *, condition: bool) -> bool:
    """Tell whether a branch can stand in the graph around it: one that defines each name once.

    Others are left to the runtime, which may know better, and nothing else is given up for them.
    """
    branch = _chosen(node, condition=condition)
    defined = list(_defined(branch))
    known = Counter(defined)
    return (
        len(branch.output) == len(node.output)
        and not branch.input
        and max(known.values(), default=0) <= 1
    )


def _chosen(node: onnx.NodeProto, *, condition: bool) -> onnx.GraphProto:
    wanted = "then_branch" if condition else "else_branch"
    branch = onnx.GraphProto()
    branch.CopyFrom(next(a.g for a in node.attribute if a.name == wanted))
    return branch


def names(graph: onnx.GraphProto) -> set[str]:
    """Return every name that a graph, or a graph inside it, defines or reads."""
    return set(_own(graph)).union(*(of_node(node) for node in graph.node))


def of_node(node: onnx.NodeProto) -> set[str]:
    """Return every name that a node, or a graph inside it, defines or reads."""
    return {node.name, *node.input, *node.output}.union(*map(names, inner_graphs(node)))


def inner_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that a node holds: branches and bodies."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def count_nodes(graph: onnx.GraphProto) -> int:
    """Return how many nodes a graph has, those of the graphs inside its nodes among them."""
    return sum(1 + sum(map(count_nodes, inner_graphs(node))) for node in graph.node)


def _own(graph: onnx.GraphProto) -> set[str]:
    """Return what a graph names beside its nodes."""
    found = {value.name for value in (*graph.input, *graph.output, *graph.value_info)}
    found |= {tensor.name for tensor in graph.initializer}
    return found | {tensor.values.name for tensor in graph.sparse_initializer}


def _defined(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield what a branch defines itself, inner graphs apart: what they define stays theirs."""
    yield from (tensor.name for tensor in graph.initializer)
    yield from (tensor.values.name for tensor in graph.sparse_initializer)
    for node in graph.node:
        yield from (name for name in node.output if name)


def _rename(graph: onnx.GraphProto, renamed: dict[str, str]) -> None:
    """Rename what a graph defines or reads; an inner graph's own name hides the one around it."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.name = renamed.get(value.name, value.name)
    for tensor in (*graph.initializer, *(row.values for row in graph.sparse_initializer)):
        tensor.name = renamed.get(tensor.name, tensor.name)
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
        for inner in inner_graphs(node):
            _rename(inner, renamed)
