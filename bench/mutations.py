"""Ways to break a small model, one at a time, as the mistake of an exporter could do it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import onnx
from onnx import AttributeProto, TensorProto, helper

TYPES = (
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.INT32,
    TensorProto.FLOAT16,
    TensorProto.BOOL,
    TensorProto.DOUBLE,
    TensorProto.STRING,
)
_OTHER_KIND: dict[int, Any] = {
    AttributeProto.INT: 1.5,
    AttributeProto.FLOAT: 1,
    AttributeProto.STRING: 1,
    AttributeProto.INTS: 1,
    AttributeProto.FLOATS: 1.5,
    AttributeProto.STRINGS: "odd",
}
Mutant = tuple[str, onnx.ModelProto]


def mutants(case: onnx.ModelProto) -> Iterator[Mutant]:
    """Give a model with one fault each, and the model as it is."""
    yield "none", case
    for make in (_versions, _counts, _attributes, _types, _sizes, _graphs, _inner):
        yield from make(case)


def _with(case: onnx.ModelProto, change: Callable[..., object]) -> onnx.ModelProto:
    made = copy.deepcopy(case)
    change(made)
    return made


def _versions(case: onnx.ModelProto) -> Iterator[Mutant]:
    yield "ir 99", _with(case, lambda m: setattr(m, "ir_version", 99))
    for opset in (1, 6, 9, 12, 15, 17, 19, 22, 28, 99):
        if case.opset_import[0].version != opset:
            change = _setter(lambda m: m.opset_import[0], "version", opset)
            yield f"opset {opset}", _with(case, change)
    yield "no opset", _with(case, lambda m: m.ClearField("opset_import"))
    yield "operator unknown", _with(case, _setter(lambda m: m.graph.node[0], "op_type", "Odd"))
    yield "domain unknown", _with(case, _setter(lambda m: m.graph.node[0], "domain", "odd"))


def _setter(of: Callable[..., Any], name: str, value: object) -> Callable[..., object]:
    return lambda made: setattr(of(made), name, value)


def _counts(case: onnx.ModelProto) -> Iterator[Mutant]:
    node = case.graph.node[0]
    if node.input:
        yield "input more", _with(case, lambda m: m.graph.node[0].input.append(node.input[0]))
        yield "input less", _with(case, lambda m: m.graph.node[0].input.pop())
        yield "input left out", _with(case, lambda m: m.graph.node[0].input.__setitem__(0, ""))
        yield "input of nobody", _with(case, lambda m: m.graph.node[0].input.__setitem__(0, "odd"))
    yield "output more", _with(case, lambda m: m.graph.node[0].output.append("one_more"))
    yield "output left out", _with(case, lambda m: m.graph.node[0].output.__setitem__(0, ""))
    yield "output gone", _with(case, lambda m: m.graph.node[0].output.pop())
    yield "node twice", _with(case, lambda m: m.graph.node.append(node))
    yield "output of nobody", _with(case, _setter(lambda m: m.graph.output[0], "name", "odd"))


def _attributes(case: onnx.ModelProto) -> Iterator[Mutant]:
    def added(made: onnx.ModelProto) -> None:
        made.graph.node[0].attribute.append(helper.make_attribute("odd", 1))

    yield "attribute unknown", _with(case, added)
    for number, row in enumerate(case.graph.node[0].attribute):
        one = f"attribute {row.name}"

        def replaced(made: onnx.ModelProto, value: object, at: int = number) -> None:
            had = made.graph.node[0].attribute[at]
            had.CopyFrom(helper.make_attribute(had.name, value))

        yield f"{one} gone", _with(case, lambda m, at=number: m.graph.node[0].attribute.pop(at))
        yield (
            f"{one} misspelt",
            _with(
                case, _setter(lambda m, at=number: m.graph.node[0].attribute[at], "name", "axxs")
            ),
        )
        yield f"{one} twice", _with(case, lambda m, r=row: m.graph.node[0].attribute.append(r))
        if row.type in _OTHER_KIND:
            other = _OTHER_KIND[row.type]
            yield f"{one} of another kind", _with(case, lambda m, v=other, r=replaced: r(m, v))
        for value in _odd_values(row):
            yield f"{one} = {value}", _with(case, lambda m, v=value, r=replaced: r(m, v))


def _odd_values(row: AttributeProto) -> list[Any]:
    if row.type == AttributeProto.INT:
        return [-99, 99]
    if row.type == AttributeProto.STRING:
        return ["nonsense"]
    if row.type == AttributeProto.INTS:
        return [[*row.ints, 1], [-1 for _ in row.ints] or [-1]]
    return []


def _types(case: onnx.ModelProto) -> Iterator[Mutant]:
    for rows in ("input", "output"):
        for number, value in enumerate(getattr(case.graph, rows)):
            if not value.type.HasField("tensor_type"):
                continue
            for kind in TYPES:
                if value.type.tensor_type.elem_type != kind:
                    name = TensorProto.DataType.Name(kind)
                    change = _setter(
                        lambda m, r=rows, at=number: getattr(m.graph, r)[at].type.tensor_type,
                        "elem_type",
                        kind,
                    )
                    yield f"{rows} {number} {name}", _with(case, change)
    for kind in TYPES:
        yield (
            f"everything {TensorProto.DataType.Name(kind)}",
            _with(case, lambda m, k=kind: _retyped(m, k)),
        )


def _retyped(made: onnx.ModelProto, kind: int) -> None:
    """Let all that has the type of the first input have another."""
    rows = [*made.graph.input, *made.graph.output]
    first = rows[0].type.tensor_type.elem_type
    for row in rows:
        if row.type.tensor_type.elem_type == first:
            row.type.tensor_type.elem_type = kind


def _sizes(case: onnx.ModelProto) -> Iterator[Mutant]:
    for number, value in enumerate(case.graph.input):
        dims = value.type.tensor_type.shape.dim

        def shape(made: onnx.ModelProto, at: int = number) -> Any:  # noqa: ANN401 - a message of onnx
            return made.graph.input[at].type.tensor_type.shape.dim

        yield f"input {number} rank more", _with(case, lambda m, s=shape: s(m).add(dim_value=2))
        if dims:
            yield f"input {number} rank less", _with(case, lambda m, s=shape: s(m).pop())
            larger = dims[-1].dim_value + 1
            yield (
                f"input {number} larger",
                _with(case, lambda m, s=shape, v=larger: setattr(s(m)[-1], "dim_value", v)),
            )


def _graphs(case: onnx.ModelProto) -> Iterator[Mutant]:
    if case.graph.input:
        name = case.graph.input[0].name
        short = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4], raw_data=b"1234")
        yield "weight too short", _with(case, lambda m: m.graph.initializer.append(short))
        yield "input twice", _with(case, lambda m: m.graph.input.append(case.graph.input[0]))
    yield "no outputs", _with(case, lambda m: m.graph.ClearField("output"))
    yield "no nodes", _with(case, lambda m: m.graph.ClearField("node"))


def _inner(case: onnx.ModelProto) -> Iterator[Mutant]:
    for number, row in enumerate(case.graph.node[0].attribute):
        if row.type != AttributeProto.GRAPH:
            continue

        def graph(made: onnx.ModelProto, at: int = number) -> Any:  # noqa: ANN401 - a message of onnx
            return made.graph.node[0].attribute[at].g

        yield f"{row.name} output less", _with(case, lambda m, g=graph: g(m).output.pop())
        if row.g.input:
            yield f"{row.name} input less", _with(case, lambda m, g=graph: g(m).input.pop())
        yield f"{row.name} node gone", _with(case, lambda m, g=graph: g(m).node.pop())
        for kind in (TensorProto.INT64, TensorProto.BOOL):
            yield (
                f"{row.name} output {TensorProto.DataType.Name(kind)}",
                _with(
                    case,
                    lambda m, g=graph, k=kind: setattr(
                        g(m).output[0].type.tensor_type, "elem_type", k
                    ),
                ),
            )
        yield (
            f"{row.name} operator newer",
            _with(case, lambda m, g=graph: setattr(g(m).node[0], "op_type", "SwiGLU")),
        )
