"""Write the table of the forms of ONNX's operators for which ONNX Runtime has no kernel.

One node of each version of each operator, with inputs of every type that its schema allows and of
no known shape, is loaded on a processor. The table is ``preflight/tables/onnxruntime_lacks.txt``.

    python -m bench.onnx_kernels
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import onnx
import onnxruntime as ort
from onnx import helper
from onnx.defs import OpSchema

from bench.mutants import by_runtime
from bench.onnx_schemas import kind_of, type_name
from enginefarm.preflight.tables.onnxruntime import LACKS

_ABOUT = """\
# What ONNX Runtime {} has no kernel for on a processor. Written by: python -m bench.onnx_kernels
# A type, then the operators that lack it for their first input, each with the opset of its form."""
_MOST_COMBINED = 40
_PLAIN = ("tensor(float)", "tensor(int64)", "tensor(bool)", "tensor(int32)")
_GIVEN: dict[str, Any] = {
    "int": 1,
    "float": 1.0,
    "string": "NONE",
    "ints": [1],
    "floats": [1.0],
    "strings": ["a"],
}


def main() -> None:
    """Ask for every form, in a minute, and write what is lacking by the type of the first input."""
    found: dict[str, list[str]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        # What is defined by others may be written out, or not, as attributes and shapes are.
        written_out = schema.has_context_dependent_function  # type: ignore[attr-defined]  # not in its stub
        if schema.domain or schema.deprecated or written_out:
            continue
        if _needs_a_graph(schema):
            continue
        for kind in _first_types(schema):
            if "(" in kind.removeprefix("tensor("):
                continue
            if _is_lacking(schema, kind):
                name = f"{schema.name}-{schema.since_version}"
                found.setdefault(type_name(kind), []).append(name)
    rows = [f"{kind or '-'} {' '.join(sorted(names))}" for kind, names in sorted(found.items())]
    LACKS.write_text("\n".join([_ABOUT.format(ort.__version__), *rows, ""]), "utf-8")


def _needs_a_graph(schema: OpSchema) -> bool:
    return any(row.required and kind_of(row) == "graph" for row in schema.attributes.values())


def _variables(schema: OpSchema) -> dict[str, list[str]]:
    return {row.type_param_str: list(row.allowed_type_strs) for row in schema.type_constraints}


def _first_types(schema: OpSchema) -> list[str]:
    if not schema.inputs:
        return [""]
    kind = schema.inputs[0].type_str
    return _variables(schema).get(kind, [kind])


def _is_lacking(schema: OpSchema, first: str) -> bool:
    """Tell whether no choice of types for the other inputs has a kernel."""
    said = [
        by_runtime(made) or "" for made in itertools.islice(_nodes(schema, first), _MOST_COMBINED)
    ]
    return bool(said) and all("NOT_IMPLEMENTED" in each for each in said)


def _nodes(schema: OpSchema, first: str) -> Iterator[onnx.ModelProto]:
    variables = _variables(schema)
    rows = list(schema.inputs)[: max(schema.min_input, 1)] if schema.inputs else []
    kinds = [row.type_str for row in rows]
    others = [kind for kind in dict.fromkeys(kinds[1:]) if kind in variables and kind != kinds[0]]
    choices = [sorted(variables[kind], key=_plainness) for kind in others]
    for chosen in itertools.product(*choices):
        bound = dict(zip(others, chosen, strict=True)) | ({kinds[0]: first} if kinds else {})
        yield _model(schema, [bound.get(kind, kind) for kind in kinds])


def _plainness(kind: str) -> int:
    return _PLAIN.index(kind) if kind in _PLAIN else len(_PLAIN)


def _model(schema: OpSchema, kinds: list[str]) -> onnx.ModelProto:
    names = [f"i{number}" for number in range(len(kinds))]
    given = {
        name: _GIVEN[kind_of(row)]
        for name, row in schema.attributes.items()
        if row.required and kind_of(row) in _GIVEN
    }
    node = helper.make_node(
        schema.name, names, [f"o{n}" for n in range(max(schema.min_output, 1))], **given
    )
    graph = helper.make_graph(
        [node],
        "g",
        [onnx.ValueInfoProto(name=n, type=_type(k)) for n, k in zip(names, kinds, strict=True)],
        [onnx.ValueInfoProto(name=node.output[0])],
    )
    opsets = [helper.make_opsetid("", schema.since_version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _type(kind: str) -> onnx.TypeProto:
    inner = kind.removeprefix("optional(").removeprefix("seq(").removeprefix("tensor(").rstrip(")")
    tensor = helper.make_tensor_type_proto(getattr(onnx.TensorProto, inner.upper()), None)
    if "seq(" in kind:
        tensor = helper.make_sequence_type_proto(tensor)
    return helper.make_optional_type_proto(tensor) if kind.startswith("optional") else tensor


if __name__ == "__main__":
    main()
