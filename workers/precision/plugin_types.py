"""What types the outputs of plugins' operators have, which ONNX's own inference cannot tell.

Without them nothing behind such an operator would get another precision. ONNX Runtime, with the
library, knows.
"""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper

from workers.precision.running import opened

_OF_ONNX = ("", "ai.onnx", "ai.onnx.ml")


def declare(model: onnx.ModelProto, folder: Path) -> None:
    """Note in a model, which has its weights in memory, the types that ONNX Runtime infers.

    Raises:
        JobFailed: ONNX Runtime does not take the model (code ``precision_not_run``).
    """
    names = _unknown(model)
    if not names:
        return
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    told = {view.name: view.dtype for view in opened(watched, folder).outputs}
    for name in names:
        kind = getattr(TensorProto, told.get(name, "").upper(), None)
        if isinstance(kind, int):
            model.graph.value_info.append(helper.make_tensor_value_info(name, kind, None))


def _unknown(model: onnx.ModelProto) -> list[str]:
    """Return the outputs of operators of other domains of which the model says no type."""
    own = {(row.domain, row.name) for row in model.functions}
    graph = model.graph
    told = {row.name for row in (*graph.value_info, *graph.output)}
    return [
        name
        for node in graph.node
        if node.domain not in _OF_ONNX and (node.domain, node.op_type) not in own
        for name in node.output
        if name and name not in told
    ]
