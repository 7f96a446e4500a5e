"""Remove inputs that no node reads, and outputs that nobody wants, with what only leads to them."""

from __future__ import annotations

import onnx

from enginefarm.counted import counted
from workers.repair.base import Ground
from workers.repair.tidy import reads, remove_unread


def run(model: onnx.ModelProto, ground: Ground) -> str | None:
    """Prune what was asked for; an input that is an output, too, stays."""
    graph = model.graph
    outputs = _drop_outputs(graph, ground)
    nodes = remove_unread(graph)
    inputs = _drop_inputs(graph) if ground.prune_inputs else []
    told = [f"the outputs {', '.join(outputs[:8])}"] if outputs else []
    told += [f"the inputs {', '.join(inputs[:8])}"] if inputs else []
    told += [counted(nodes, "node")] if nodes else []
    return f"nobody needs {' and '.join(told)}" if told else None


def _drop_outputs(graph: onnx.GraphProto, ground: Ground) -> list[str]:
    dropped = [
        value.name
        for value in graph.output
        if ground.keep_outputs and value.name not in ground.keep_outputs
    ]
    _keep(graph.output, dropped)
    return dropped


def _drop_inputs(graph: onnx.GraphProto) -> list[str]:
    needed = {value.name for value in graph.output}
    for node in graph.node:
        needed |= reads(node)
    unread = [value.name for value in graph.input if value.name not in needed]
    _keep(graph.input, unread)
    return unread


def _keep(values: list[onnx.ValueInfoProto], dropped: list[str]) -> None:
    kept = [value.SerializeToString() for value in values if value.name not in dropped]
    if len(kept) < len(values):
        del values[:]
        values.extend(onnx.ValueInfoProto.FromString(data) for data in kept)
