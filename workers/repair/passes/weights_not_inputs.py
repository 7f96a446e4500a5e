"""Let weights be weights alone: before IR version 4 each had to be listed as an input, too."""

from __future__ import annotations

import onnx

from enginefarm.counted import counted
from workers.repair.base import Ground


def run(model: onnx.ModelProto, _ground: Ground) -> str | None:
    """Take the weights out of the list of inputs."""
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    kept = [value for value in graph.input if value.name not in weights]
    listed = len(graph.input) - len(kept)
    if listed == 0:
        return None
    copies = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in kept]
    del graph.input[:]
    graph.input.extend(copies)
    return counted(
        listed, "weight was also listed as an input", "weights were also listed as inputs"
    )
