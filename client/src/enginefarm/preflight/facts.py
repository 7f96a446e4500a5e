"""What the rules look at: a model's graph as facts, without its weights. Pure.

Nodes of ONNX's own domain have the domain "". Small constants have their values; of large ones
there is the place where they lie. Graphs inside nodes are facts of their node.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from enginefarm.model_file import ModelScan
from enginefarm.onnx_types import ExternalRef, bits_of
from enginefarm.views import TensorView

Number = int | float


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """A weight or constant.

    ``values`` is None for what is large or of a type without numbers. ``at`` is where in the model
    file its values lie in one piece: first byte and length.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: tuple[Number, ...] | None = None
    at: tuple[int, int] | None = None
    external: ExternalRef | None = None

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """How many bytes its values take."""
        return -(-self.elements * bits_of(self.dtype) // 8)


Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | TensorFacts


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node. ``label`` is its name, or ``#`` and its number where it has none."""

    label: str
    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute]
    graphs: dict[str, GraphFacts]
    kinds: tuple[tuple[str, str], ...] = ()
    """Every attribute with the kind of value that the file says it has: ``int``, ``floats``."""

    def given(self, number: int) -> str:
        """Return the name of an input; "" where it is left out."""
        return self.inputs[number] if number < len(self.inputs) else ""

    def whole(self, name: str, default: int) -> int:
        """Return an attribute that is a whole number."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def word(self, name: str, default: str) -> str:
        """Return an attribute that is a text."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, str) else default

    def wholes(self, name: str) -> tuple[int, ...] | None:
        """Return an attribute that is a list of whole numbers, or None if it is not given."""
        value = self.attributes.get(name)
        if not isinstance(value, tuple):
            return None
        found = tuple(each for each in value if isinstance(each, int))
        return found if len(found) == len(value) else None


@dataclass(slots=True)
class GraphFacts:
    """A graph: ``declared`` has the type and shape of every tensor of which the file tells them."""

    depth: int = 0
    nodes: list[NodeFacts] = field(default_factory=list)
    inputs: list[TensorView] = field(default_factory=list)
    outputs: list[TensorView] = field(default_factory=list)
    weights: dict[str, TensorFacts] = field(default_factory=dict)
    declared: dict[str, TensorView] = field(default_factory=dict)

    def every_node(self) -> Iterator[NodeFacts]:
        """Give every node, those of inner graphs after the one that holds them."""
        for node in self.nodes:
            yield node
            for inner in node.graphs.values():
                yield from inner.every_node()

    def every_graph(self) -> Iterator[GraphFacts]:
        """Give this graph and all inside it."""
        yield self
        for node in self.nodes:
            for inner in node.graphs.values():
                yield from inner.every_graph()

    def constants(self) -> dict[str, TensorFacts]:
        """Return what has the same value in every run: weights, and what Constant nodes make."""
        found = dict(self.weights)
        for node in self.nodes:
            made = _constant(node)
            if made is not None:
                found[node.outputs[0]] = made
        return found


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model: what its scan says, its graph, and the operators that it defines itself."""

    scan: ModelScan
    graph: GraphFacts
    functions: frozenset[tuple[str, str]] = frozenset()

    @property
    def inputs(self) -> list[TensorView]:
        """What a caller gives."""
        return self.scan.inputs

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators; 0 if none is named."""
        return self.scan.opsets.get("ai.onnx", 0)

    def weights(self) -> Iterator[TensorFacts]:
        """Give every weight and constant tensor, of inner graphs, too."""
        for graph in self.graph.every_graph():
            yield from graph.weights.values()
            for node in graph.nodes:
                for value in node.attributes.values():
                    if isinstance(value, TensorFacts):
                        yield replace(value, name=value.name or (*node.outputs, node.label)[0])

    def weight_bytes(self) -> int:
        """Return how many bytes all weights take."""
        return sum(tensor.size_bytes for tensor in self.weights())


def _constant(node: NodeFacts) -> TensorFacts | None:
    if node.op != "Constant" or node.domain or not node.outputs:
        return None
    name = node.outputs[0]
    for key, value in node.attributes.items():
        match value:
            case TensorFacts():
                return value
            case int() if key == "value_int":
                return TensorFacts(name, "int64", (), (value,))
            case float() if key == "value_float":
                return TensorFacts(name, "float32", (), (value,))
            case tuple() if key in {"value_ints", "value_floats"}:
                numbers = tuple(each for each in value if not isinstance(each, str))
                dtype = "int64" if key == "value_ints" else "float32"
                return TensorFacts(name, dtype, (len(numbers),), numbers)
            case _:
                pass
    return None
