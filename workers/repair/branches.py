"""Take a branch of an If into the graph around it."""

from __future__ import annotations

from collections.abc import Iterator

import onnx


def take_in(graph: onnx.GraphProto, node: onnx.NodeProto, *, condition: bool) -> None:
    """Replace an If with the nodes of one branch; its outputs keep their names."""
    wanted = "then_branch" if condition else "else_branch"
    branch = onnx.GraphProto()
    branch.CopyFrom(next(a.g for a in node.attribute if a.name == wanted))
    taken = names(graph, but=node) | set(node.input) | set(node.output)
    renamed = {name: _free(name, taken) for name in _defined(branch)}
    _rename(branch, renamed)
    for row in branch.node:
        row.name = _free(row.name, taken) if row.name else ""
    place = next(i for i, row in enumerate(graph.node) if row is node)
    results = [
        onnx.helper.make_node("Identity", [value.name], [name], name=_free(f"{name}_taken", taken))
        for value, name in zip(branch.output, node.output, strict=True)
    ]
    # A repeated message has no cheap insertion in one go: rebuild the list of nodes.
    nodes = [*graph.node[:place], *branch.node, *results, *graph.node[place + 1 :]]
    kept = [onnx.NodeProto.FromString(row.SerializeToString()) for row in nodes]
    del graph.node[:]
    graph.node.extend(kept)
    graph.initializer.extend(branch.initializer)
    graph.value_info.extend(branch.value_info)


def names(graph: onnx.GraphProto, but: onnx.NodeProto | None = None) -> set[str]:
    """Return every name that a graph, or a graph inside it, defines or reads; one node apart."""
    found = {value.name for value in (*graph.input, *graph.output, *graph.value_info)}
    found |= {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if node is but:
            continue
        found |= {node.name, *node.input, *node.output}
        for inner in inner_graphs(node):
            found |= names(inner)
    return found


def inner_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that a node holds: branches and bodies."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def count_nodes(graph: onnx.GraphProto) -> int:
    """Return how many nodes a graph has, those of the graphs inside its nodes among them."""
    return sum(1 + sum(map(count_nodes, inner_graphs(node))) for node in graph.node)


def _defined(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield what a branch defines itself, inner graphs apart: what they define stays theirs."""
    yield from (tensor.name for tensor in graph.initializer)
    for node in graph.node:
        yield from (name for name in node.output if name)


def _rename(graph: onnx.GraphProto, renamed: dict[str, str]) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.name = renamed.get(value.name, value.name)
    for tensor in graph.initializer:
        tensor.name = renamed.get(tensor.name, tensor.name)
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
        for inner in inner_graphs(node):
            _rename(inner, renamed)


def _free(name: str, taken: set[str]) -> str:
    goal, number = name, 1
    while goal in taken:
        number += 1
        goal = f"{name}__{number}"
    taken.add(goal)
    return goal
