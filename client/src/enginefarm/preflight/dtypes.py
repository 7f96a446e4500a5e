"""Follow data types through a graph: what is declared, and what operators certainly give. Pure."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from enginefarm.onnx_types import dtype_name
from enginefarm.preflight.facts import GraphFacts, NodeFacts, TensorFacts
from enginefarm.preflight.tables.onnx_schemas import Parameters, Schema, schema_of

_UNKNOWN = ""
_GIVES = {"If": ("then_branch", 0), "Loop": ("body", 1), "Scan": ("body", 0)}
"""By operator, the graph inside it that makes its outputs, and from which of its outputs on."""
_Scope = ChainMap[str, str]


@dataclass(frozen=True, slots=True)
class TypedNode:
    """A node with types, where they are certain, else "": of its inputs, and of its outputs.

    ``made`` is what its operator gives, ``said`` what the file says of the outputs; ``branches``
    has what each graph inside it gives.
    """

    node: NodeFacts
    given: tuple[str, ...]
    made: tuple[str, ...]
    said: tuple[str, ...]
    branches: Mapping[str, tuple[str, ...]]


def typed_nodes(
    graph: GraphFacts, opset: int, own: frozenset[tuple[str, str]] = frozenset()
) -> Iterator[TypedNode]:
    """Give every node with its types, those inside it first.

    ``own`` are the operators that the model defines itself: of those nothing is known.
    """
    yield from _Walk(opset, own).through(graph, ChainMap())


def follow_types(graph: GraphFacts, nodes: Iterable[TypedNode]) -> dict[str, str]:
    """Return the type of every tensor of which it is certain; of two of one name, the outer's."""
    found = _declared(graph)
    for row in nodes:
        for name, made, said in zip(row.node.outputs, row.made, row.said, strict=True):
            if name and (said or made):
                found.setdefault(name, said or made)
    for inner in graph.every_graph():
        for name, kind in _declared(inner).items():
            found.setdefault(name, kind)
    return found


class _Walk:
    """One way through a graph and those inside it, each with its own names."""

    def __init__(self, opset: int, own: frozenset[tuple[str, str]]) -> None:
        self._opset = opset
        self._own = own

    def through(self, graph: GraphFacts, scope: _Scope) -> Iterator[TypedNode]:
        declared = _declared(graph)
        scope.maps[0].update(declared)
        for node in graph.nodes:
            branches: dict[str, tuple[str, ...]] = {}
            for name, inner in node.graphs.items():
                inside = scope.new_child()
                yield from self.through(inner, inside)
                branches[name] = tuple(inside.get(row.name, _UNKNOWN) for row in inner.outputs)
            given = tuple(scope.get(name, _UNKNOWN) for name in node.inputs)
            made = self._made(node, given, branches)
            said = tuple(declared.get(name, _UNKNOWN) for name in node.outputs)
            for name, kind in zip(node.outputs, made, strict=True):
                if name and kind and node.op == "Constant":
                    scope.maps[0][name] = kind  # whatever it was declared to be
                elif name and kind:
                    scope.maps[0].setdefault(name, kind)
            yield TypedNode(node, given, made, said, branches)

    def _made(
        self, node: NodeFacts, given: Sequence[str], branches: Mapping[str, tuple[str, ...]]
    ) -> tuple[str, ...]:
        """Return the type of each output, if its operator tells."""
        count = len(node.outputs)
        if node.domain or (node.domain, node.op) in self._own:
            return (_UNKNOWN,) * count
        if node.op in _GIVES:
            branch, first = _GIVES[node.op]
            found = branches.get(branch, ())[first:]
            return found if len(found) == count else (_UNKNOWN,) * count
        if node.op in _SPECIAL:
            kind = _SPECIAL[node.op](node, given)
            return (_UNKNOWN if kind in {None, "undefined"} else str(kind),) * count
        schema = schema_of(node.op, self._opset)
        if schema is None:
            return (_UNKNOWN,) * count
        bound = bindings(schema.inputs, given)
        return tuple(_of_output(schema, number, bound) for number in range(count))


def bindings(parameters: Parameters, given: Sequence[str]) -> dict[str, str]:
    """Return for what type each variable stands, by the first input that tells."""
    found: dict[str, str] = {}
    for number, kind in enumerate(given):
        row = parameters.at(number)
        if row is not None and row.alike and kind:
            found.setdefault(row.type, kind)
    return found


def _of_output(schema: Schema, number: int, bound: Mapping[str, str]) -> str:
    row = schema.outputs.at(number)
    if row is None or not row.alike:
        return _UNKNOWN
    allowed = schema.types.get(row.type)
    if allowed is None:
        return row.type if "(" not in row.type else _UNKNOWN
    only = next(iter(allowed)) if len(allowed) == 1 else _UNKNOWN
    return bound.get(row.type, only if "(" not in only else _UNKNOWN)


def _declared(graph: GraphFacts) -> dict[str, str]:
    found = {name: tensor.dtype for name, tensor in graph.weights.items()}
    for name, view in graph.declared.items():
        if view.dtype != "undefined":
            found.setdefault(name, view.dtype)
    return found


def _at(given: Sequence[str], number: int) -> str:
    return given[number] if number < len(given) else _UNKNOWN


def _constant(node: NodeFacts, _given: Sequence[str]) -> str | None:
    made = GraphFacts(nodes=[node]).constants()
    return next((tensor.dtype for tensor in made.values()), None)


def _filled(node: NodeFacts, _given: Sequence[str]) -> str:
    value = node.attributes.get("value")
    return value.dtype if isinstance(value, TensorFacts) else "float32"


def _asked(node: NodeFacts, attribute: str, otherwise: str) -> str:
    """Return the type that an attribute asks for; 0 asks for none."""
    number = node.whole(attribute, 0)
    return dtype_name(number) if number else otherwise


def _quantized(node: NodeFacts, given: Sequence[str]) -> str:
    return _at(given, 2) if node.given(2) else _asked(node, "output_dtype", "uint8")


_Made = Callable[[NodeFacts, Sequence[str]], str | None]
_WINDOWS = ("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix")
_SPECIAL: dict[str, _Made] = {
    "BitCast": lambda node, _given: _asked(node, "to", _UNKNOWN),
    "Cast": lambda node, _given: _asked(node, "to", _UNKNOWN),
    "Constant": _constant,
    "ConstantOfShape": _filled,
    "DequantizeLinear": lambda node, given: _asked(node, "output_dtype", _at(given, 1)),
    "Multinomial": lambda node, _given: _asked(node, "dtype", "int32"),
    "QuantizeLinear": _quantized,
    **dict.fromkeys(
        ("Bernoulli", "EyeLike", "RandomNormalLike", "RandomUniformLike"),
        lambda node, given: _asked(node, "dtype", _at(given, 0)),
    ),
    **dict.fromkeys(
        ("RandomNormal", "RandomUniform"), lambda node, _given: _asked(node, "dtype", "float32")
    ),
    **dict.fromkeys(_WINDOWS, lambda node, _given: _asked(node, "output_datatype", "float32")),
}
