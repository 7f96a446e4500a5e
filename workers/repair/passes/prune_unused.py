"""Remove inputs that no node reads, and nodes that nobody waits for."""

from __future__ import annotations

import onnx

from workers.repair.base import Ground
from workers.repair.tidy import reads, remove_unread


def run(model: onnx.ModelProto, _ground: Ground) -> str | None:
    """Prune; an input that is an output, too, stays."""
    graph = model.graph
    nodes = remove_unread(graph)
    needed = {value.name for value in graph.output}
    for node in graph.node:
        needed |= reads(node)
    unread = [value.name for value in graph.input if value.name not in needed]
    if not unread and not nodes:
        return None
    kept = [v.SerializeToString() for v in graph.input if v.name in needed]
    del graph.input[:]
    graph.input.extend(onnx.ValueInfoProto.FromString(data) for data in kept)
    told = [f"the inputs {', '.join(unread[:8])}"] if unread else []
    told += [f"{nodes} nodes"] if nodes else []
    return f"nothing reads {' and '.join(told)}"
