"""Let weights be weights alone: before IR version 4 each had to be listed as an input, too.

Since then a weight that is also an input is one with a default value, which whoever runs the model
may give another: that is kept, unless it is asked for.
"""

from __future__ import annotations

import onnx

from enginefarm.counted import counted
from workers.repair.base import Ground, NotApplied

DEFAULTS_IR = 4
_TOLD = 5


def run(model: onnx.ModelProto, ground: Ground) -> str | None:
    """Take the weights out of the list of inputs."""
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    weights |= {tensor.values.name for tensor in graph.sparse_initializer}
    kept = [value for value in graph.input if value.name not in weights]
    listed = [value.name for value in graph.input if value.name in weights]
    if not listed:
        return None
    if model.ir_version >= DEFAULTS_IR and not ground.drop_defaults:
        told = ", ".join(name[:80] for name in listed[:_TOLD])
        more = f" and {len(listed) - _TOLD} more" if len(listed) > _TOLD else ""
        raise NotApplied(
            f"inputs with default values stay inputs: {told}{more}; an engine computes with the "
            "defaults unless its runtime takes others; repair.drop_defaults makes weights of them"
        )
    copies = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in kept]
    del graph.input[:]
    graph.input.extend(copies)
    return counted(
        len(listed), "weight was also listed as an input", "weights were also listed as inputs"
    )
