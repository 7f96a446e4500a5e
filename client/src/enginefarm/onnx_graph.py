"""Walk the graphs of an ONNX file: names, operators, and where external weights lie.

Every graph is walked, also those inside nodes and functions, since any may name a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from enginefarm.onnx_refusals import invalid_graph, named_twice, too_complex, too_deep
from enginefarm.onnx_refusals import too_many_nodes as nodes_refused
from enginefarm.onnx_types import ExternalRef, TypeReader, require_bytes
from enginefarm.protobuf_wire import Field, Wire
from enginefarm.tensor import TensorView

_NODE, _INITIALIZER, _INPUT, _OUTPUT, _SPARSE_INITIALIZER = 1, 5, 11, 12, 15
_NODE_OUTPUT, _NODE_OP_TYPE, _NODE_ATTRIBUTE, _NODE_DOMAIN = 2, 4, 5, 7
_TENSOR, _GRAPH, _FLOATS, _INTS, _TENSORS, _GRAPHS = 5, 6, 7, 8, 10, 11
_SPARSE, _SPARSE_LIST = 22, 23
_FUNCTION_NODE, _FUNCTION_ATTRIBUTE = 7, 11
_GRAPH_FIELDS = frozenset({_NODE, _INITIALIZER, _INPUT, _OUTPUT, _SPARSE_INITIALIZER})
_NODE_FIELDS = frozenset({_NODE_OUTPUT, _NODE_OP_TYPE, _NODE_ATTRIBUTE, _NODE_DOMAIN})
_ATTRIBUTE_FIELDS = frozenset({_TENSOR, _GRAPH, _TENSORS, _GRAPHS, _SPARSE, _SPARSE_LIST})
_ATTRIBUTE_RUNS = frozenset({_FLOATS, _INTS})
_FUNCTION_FIELDS = frozenset({_FUNCTION_NODE, _FUNCTION_ATTRIBUTE})
_SPARSE_PARTS = _TRAINING_GRAPHS = frozenset({1, 2})
_OWN_DOMAINS = frozenset({"", "ai.onnx"})
MAX_DEPTH = 32
MAX_INTERFACE = 4096
MAX_EXTERNAL = 100_000
_NAMES_PER_NODE = 4


@dataclass
class Graph:
    """One graph: what goes in, what comes out, and which names are made or hold weights."""

    inputs: list[TensorView] = field(default_factory=list)
    outputs: list[TensorView] = field(default_factory=list)
    initializers: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    node_count: int = 0

    def require_one_name_each(self) -> None:
        """Refuse a graph in which a name stands for two tensors.

        Raises:
            InvalidModel: code ``invalid_graph``.
        """
        inputs = _distinct((row.name for row in self.inputs), "both are inputs")
        for name in self.made:
            if name in self.initializers:
                raise named_twice(name, "a node makes it, and it is an initializer")
            if name in inputs:
                raise named_twice(name, "a node makes it, and it is an input")

    def require_outputs_made(self) -> None:
        """Refuse a model with an output that is named twice, or that nothing makes.

        Raises:
            InvalidModel: code ``invalid_graph``.
        """
        _distinct((row.name for row in self.outputs), "both are outputs")
        known = self.made | self.initializers | {row.name for row in self.inputs}
        for row in self.outputs:
            if row.name not in known:
                raise invalid_graph(
                    f"Nothing in the graph makes its output {row.name[:200]!r}.",
                    "the node that made it was cut off or renamed",
                    tensor=row.name[:200],
                )


@dataclass
class GraphWalker:
    """Walks graphs and the graphs inside their nodes, and counts as it goes."""

    wire: Wire
    max_nodes: int
    node_count: int = 0
    op_types: Counter[str] = field(default_factory=Counter)
    external: list[ExternalRef] = field(default_factory=list)
    initializer_bytes: int = 0

    def __post_init__(self) -> None:
        """Read types with the same wire and a count of the names that are kept."""
        self._types = TypeReader(self.wire)
        self._names_left = _NAMES_PER_NODE * self.max_nodes

    def graph(self, start: int, end: int, depth: int = 0) -> Graph:
        """Walk one graph.

        Raises:
            InvalidModel: it is no graph, or above a limit.
        """
        if depth > MAX_DEPTH:
            raise too_deep(MAX_DEPTH)
        graph = Graph()
        for row in self.wire.fields(start, end, _GRAPH_FIELDS):
            if row.number == _NODE:
                graph.node_count += 1
                self._node(require_bytes(row), graph.made, depth)
            elif row.number == _INITIALIZER:
                self._add(graph.initializers, self._tensor(row), "both are initializers")
            elif row.number == _SPARSE_INITIALIZER:
                self._add(graph.initializers, self._sparse(row), "both are initializers")
            elif row.number == _INPUT:
                self._interface(graph.inputs, row)
            elif row.number == _OUTPUT:
                self._interface(graph.outputs, row)
        graph.require_one_name_each()
        return graph

    def function(self, start: int, end: int) -> None:
        """Walk the nodes and default attributes of a function that the model defines."""
        made = set[str]()
        for row in self.wire.fields(start, end, _FUNCTION_FIELDS):
            if row.number == _FUNCTION_NODE:
                self._node(require_bytes(row), made, 0)
            else:
                self._attribute(require_bytes(row), 0)

    def training(self, start: int, end: int) -> None:
        """Walk the two graphs of a ``TrainingInfoProto``."""
        for row in self.wire.fields(start, end, _TRAINING_GRAPHS):
            require_bytes(row)
            self.graph(row.value, row.end, 1)

    def _node(self, node: Field, made: set[str], depth: int) -> None:
        self.node_count += 1
        if self.node_count > self.max_nodes:
            raise nodes_refused(self.max_nodes)
        op_type, domain = "", ""
        for row in self.wire.fields(node.value, node.end, _NODE_FIELDS):
            if row.number == _NODE_OP_TYPE:
                op_type = self._types.label(row)
            elif row.number == _NODE_DOMAIN:
                domain = self._types.label(row)
            elif row.number == _NODE_OUTPUT:
                name = self._types.text(row)
                # An optional output that is not wanted has the empty name.
                if name:
                    self._add(made, name, "two outputs of nodes have it")
            elif row.number == _NODE_ATTRIBUTE:
                self._attribute(require_bytes(row), depth)
        if not op_type:
            raise invalid_graph("A node of the graph has no operator.", f"at byte {node.value}")
        self.op_types[op_type if domain in _OWN_DOMAINS else f"{domain}::{op_type}"] += 1

    def _attribute(self, attribute: Field, depth: int) -> None:
        single = set[int]()
        for row in self.wire.fields(
            attribute.value, attribute.end, _ATTRIBUTE_FIELDS, runs=_ATTRIBUTE_RUNS
        ):
            if row.number in {_TENSOR, _GRAPH, _SPARSE}:
                if row.number in single:
                    raise invalid_graph("A node has two values for one attribute.", "")
                single.add(row.number)
            if row.number in {_GRAPH, _GRAPHS}:
                require_bytes(row)
                self.graph(row.value, row.end, depth + 1)
            elif row.number in {_TENSOR, _TENSORS}:
                self._tensor(row)
            elif row.number in {_SPARSE, _SPARSE_LIST}:
                self._sparse(row)

    def _tensor(self, row: Field) -> str:
        tensor = self._types.tensor(require_bytes(row))
        self.initializer_bytes += tensor.inline_bytes
        if tensor.external is not None:
            if len(self.external) >= MAX_EXTERNAL:
                raise too_complex(f"more than {MAX_EXTERNAL} tensors keep their data outside")
            self.external.append(tensor.external)
            self.initializer_bytes += tensor.external.length or tensor.external.needed
        return tensor.name

    def _sparse(self, sparse: Field) -> str:
        """Walk the values and indices of a ``SparseTensorProto``; its name is the values'."""
        require_bytes(sparse)
        name = ""
        for row in self._types.once(sparse, _SPARSE_PARTS):
            found = self._tensor(row)
            name = found if row.number == 1 else name
        return name

    def _interface(self, rows: list[TensorView], row: Field) -> None:
        if len(rows) >= MAX_INTERFACE:
            raise too_complex(f"a graph has more than {MAX_INTERFACE} inputs or outputs")
        rows.append(self._types.value(require_bytes(row)))

    def _add(self, names: set[str], name: str, what: str) -> None:
        if name in names:
            raise named_twice(name, what)
        self._count_name()
        names.add(name)

    def _count_name(self) -> None:
        self._names_left -= 1
        if self._names_left < 0:
            raise too_complex("it has more tensors than that many nodes can make")


def _distinct(names: Iterable[str], what: str) -> set[str]:
    seen = set[str]()
    for name in names:
        if name in seen:
            raise named_twice(name, what)
        seen.add(name)
    return seen
