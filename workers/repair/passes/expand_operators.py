"""Write out operators that a compiler lacks, by the definition that ONNX itself gives of them."""

from __future__ import annotations

import onnx
from onnx import inliner

from enginefarm.preflight.tables import capabilities_of
from enginefarm.repairs import WRITTEN_OUT
from workers.repair.base import Ground, NotApplied
from workers.repair.branches import inner_graphs

_OWN = ("", "ai.onnx")


def run(model: onnx.ModelProto, ground: Ground) -> str | None:
    """Let ONNX's own inliner put the definition in the place of each."""
    lacking = WRITTEN_OUT & capabilities_of(ground.backend, None).missing
    written, found = model, _operators(model.graph) & lacking
    if not found:
        return None
    left, done = found, set[str]()
    while left:  # one definition may use another
        if left <= done:
            raise NotApplied(f"ONNX's inliner leaves {', '.join(sorted(left))}")
        written, done = _inlined(written, left), done | left
        left = _operators(written.graph) & lacking
    del written.graph.value_info[:]
    written.graph.value_info.extend(model.graph.value_info)
    model.CopyFrom(written)
    return f"{', '.join(sorted(found))} became what ONNX defines it to be"


def _inlined(model: onnx.ModelProto, operators: set[str]) -> onnx.ModelProto:
    named = [("", op) for op in sorted(operators)]
    ready = _with_types(model)
    _say_defaults(ready.graph, operators, _opset(model))
    try:
        return inliner.inline_selected_functions(ready, named, inline_schema_functions=True)
    except Exception as error:
        message = f"ONNX's inliner does not take it: {str(error)[:200]}"
        raise NotApplied(message) from error


def _with_types(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with the type of every value told: some definitions depend on them."""
    typed = onnx.shape_inference.infer_shapes(model)
    told = {row.name for row in (*typed.graph.value_info, *typed.graph.input)}
    typed.graph.value_info.extend(
        onnx.helper.make_tensor_value_info(row.name, row.data_type, row.dims)
        for row in typed.graph.initializer
        if row.name not in told
    )
    typed.graph.value_info.extend(_of_branches(typed.graph))
    return typed


def _of_branches(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return the types of what stands in branches: the inliner looks for them in the outer graph.

    Of a name that two branches have with two types nothing is said.
    """
    outside = {row.name for row in (*graph.value_info, *graph.input, *graph.output)}
    found: dict[str, set[bytes]] = {}
    for inner in (each for node in graph.node for each in inner_graphs(node)):
        for row in (*inner.value_info, *inner.input, *_of_branches(inner)):
            if row.name not in outside:
                found.setdefault(row.name, set()).add(row.SerializeToString(deterministic=True))
    return [
        onnx.ValueInfoProto.FromString(next(iter(rows)))
        for rows in found.values()
        if len(rows) == 1
    ]


def _say_defaults(graph: onnx.GraphProto, operators: set[str], opset: int) -> None:
    """Write what a node leaves to its operator's defaults: the inliner does not know them."""
    for node in graph.node:
        for inner in inner_graphs(node):
            _say_defaults(inner, operators, opset)
        if node.domain in _OWN and node.op_type in operators:
            said = {row.name for row in node.attribute}
            schema = onnx.defs.get_schema(node.op_type, opset)
            node.attribute.extend(
                row.default_value
                for name, row in schema.attributes.items()
                if name not in said and row.default_value.name
            )


def _opset(model: onnx.ModelProto) -> int:
    found: int = next(row.version for row in model.opset_import if row.domain in _OWN)
    return found


def _operators(graph: onnx.GraphProto) -> set[str]:
    inner = (_operators(each) for node in graph.node for each in inner_graphs(node))
    return {node.op_type for node in graph.node if node.domain in _OWN}.union(*inner)
