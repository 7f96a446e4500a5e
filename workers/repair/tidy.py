"""Leave out of a graph what nothing reads."""

from __future__ import annotations

import onnx

from workers.repair.branches import inner_graphs


def remove_unread(graph: onnx.GraphProto) -> int:
    """Remove nodes whose outputs nobody reads, and the weights that only they read."""
    needed = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed.isdisjoint(node.output):
            continue
        kept.append(onnx.NodeProto.FromString(node.SerializeToString()))
        needed |= reads(node)
    removed = len(graph.node) - len(kept)
    del graph.node[:]
    graph.node.extend(reversed(kept))
    inputs = {value.name for value in graph.input}
    weights = [t for t in graph.initializer if t.name in needed or t.name in inputs]
    if len(weights) < len(graph.initializer):
        copies = [onnx.TensorProto.FromString(t.SerializeToString()) for t in weights]
        del graph.initializer[:]
        graph.initializer.extend(copies)
    infos = [v for v in graph.value_info if v.name in needed]
    if len(infos) < len(graph.value_info):
        told = [onnx.ValueInfoProto.FromString(v.SerializeToString()) for v in infos]
        del graph.value_info[:]
        graph.value_info.extend(told)
    return removed


def reads(node: onnx.NodeProto) -> set[str]:
    """Return what a node reads, with what the graphs inside it read from around them."""
    found = {name for name in node.input if name}
    for inner in inner_graphs(node):
        own = {value.name for value in inner.input} | {t.name for t in inner.initializer}
        wanted = {value.name for value in inner.output}
        for row in inner.node:
            wanted |= reads(row)
            own |= set(row.output)
        found |= wanted - own
    return found
