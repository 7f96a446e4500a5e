"""Scan the graph of an ONNX file: names, shapes, operators, and where external weights lie."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from enginefarm.errors import InvalidModel
from enginefarm.protobuf_wire import (
    BYTES,
    VARINT,
    Budget,
    Field,
    WireError,
    fields,
    packed,
    signed,
    text,
)
from enginefarm.views import TensorView

_DTYPES = [
    "undefined",
    "float32",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "int32",
    "int64",
    "string",
    "bool",
    "float16",
    "float64",
    "uint32",
    "uint64",
    "complex64",
    "complex128",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "uint4",
    "int4",
    "float4_e2m1",
    "float8_e8m0",
    "uint2",
    "int2",
]
_NODE, _INITIALIZER, _INPUT, _OUTPUT, _SPARSE = 1, 5, 11, 12, 15
_NODE_OUTPUT, _NODE_OP_TYPE, _NODE_ATTRIBUTE, _NODE_DOMAIN = 2, 4, 5, 7
_ATTR_TENSOR, _ATTR_GRAPH, _ATTR_TENSORS, _ATTR_GRAPHS = 5, 6, 10, 11
_TENSOR_DIMS, _TENSOR_NAME, _TENSOR_RAW, _TENSOR_EXTERNAL, _TENSOR_LOCATION = 1, 8, 9, 13, 14
_EXTERNAL = 1
_MAX_DEPTH = 32
_MAX_TENSORS = 1_000_000


@dataclass(frozen=True)
class Limits:
    """How much a model may hold."""

    nodes: int


@dataclass(frozen=True)
class ExternalRef:
    """Where a tensor's bytes lie. ``length`` is None when the model does not say."""

    tensor: str
    location: str
    offset: int
    length: int | None


@dataclass
class GraphScan:
    """One graph: what goes in, what comes out, and which names hold weights."""

    inputs: list[TensorView] = field(default_factory=list)
    outputs: list[TensorView] = field(default_factory=list)
    initializers: set[str] = field(default_factory=set)
    node_count: int = 0


@dataclass
class GraphScanner:
    """Walks a graph and the graphs inside its nodes, counting as it goes."""

    data: memoryview
    budget: Budget
    limits: Limits
    node_count: int = 0
    op_types: Counter[str] = field(default_factory=Counter)
    external: list[ExternalRef] = field(default_factory=list)
    initializer_bytes: int = 0

    def graph(  # noqa: C901 - one branch for each field
        self, start: int, end: int, depth: int = 0
    ) -> GraphScan:
        """Scan one graph."""
        if depth > _MAX_DEPTH:
            raise WireError(f"graphs are nested more than {_MAX_DEPTH} deep")
        scan, made = GraphScan(), set[str]()
        for row in fields(self.data, start, end, self.budget):
            if row.kind != BYTES:
                continue
            if row.number == _NODE:
                scan.node_count += 1
                self._node(row, made, depth)
            elif row.number == _INITIALIZER:
                name = self._tensor(row)
                if name in scan.initializers:
                    raise _twice(name)
                scan.initializers.add(name)
            elif row.number == _SPARSE:
                self._skip_sparse(row)
            elif row.number == _INPUT:
                scan.inputs.append(self._value(row))
            elif row.number == _OUTPUT:
                scan.outputs.append(self._value(row))
        if depth == 0:
            _require_distinct([row.name for row in scan.inputs])
            _require_distinct([row.name for row in scan.outputs])
        return scan

    def loose_nodes(self, start: int, end: int, number: int) -> None:
        """Scan the nodes of a model-local function."""
        made = set[str]()
        for row in fields(self.data, start, end, self.budget):
            if row.number == number and row.kind == BYTES:
                self._node(row, made, 1)

    def _node(self, node: Field, made: set[str], depth: int) -> None:
        self.node_count += 1
        if self.node_count > self.limits.nodes:
            raise InvalidModel(
                f"The graph has more than {self.limits.nodes} nodes.",
                code="too_many_nodes",
                fix="Simplify the model (constant folding, no unrolled loops) and export it again.",
            )
        op_type, domain = "", ""
        for row in fields(self.data, node.start, node.end, self.budget):
            if row.kind != BYTES:
                continue
            if row.number == _NODE_OP_TYPE:
                op_type = text(self.data, row)
            elif row.number == _NODE_DOMAIN:
                domain = text(self.data, row)
            elif row.number == _NODE_OUTPUT:
                name = text(self.data, row)
                if name and name in made:
                    raise _twice(name)
                made.add(name)
            elif row.number == _NODE_ATTRIBUTE:
                self._attribute(row, depth)
        if not op_type:
            raise WireError("a node has no operator")
        own = domain in {"", "ai.onnx"}
        self.op_types[op_type if own else f"{domain}::{op_type}"] += 1

    def _attribute(self, attribute: Field, depth: int) -> None:
        for row in fields(self.data, attribute.start, attribute.end, self.budget):
            if row.kind != BYTES:
                continue
            if row.number in {_ATTR_GRAPH, _ATTR_GRAPHS}:
                self.graph(row.start, row.end, depth + 1)
            elif row.number in {_ATTR_TENSOR, _ATTR_TENSORS}:
                self._tensor(row)

    def _skip_sparse(self, sparse: Field) -> None:
        for row in fields(self.data, sparse.start, sparse.end, self.budget):
            if row.kind == BYTES and row.number in {1, 2}:
                self._tensor(row)

    def _tensor(self, tensor: Field) -> str:
        name, external, location = "", [], 0
        for row in fields(self.data, tensor.start, tensor.end, self.budget):
            if row.number == _TENSOR_NAME and row.kind == BYTES:
                name = text(self.data, row)
            elif row.number == _TENSOR_RAW and row.kind == BYTES:
                self.initializer_bytes += row.end - row.start
            elif row.number == _TENSOR_EXTERNAL and row.kind == BYTES:
                external.append(self._pair(row))
            elif row.number == _TENSOR_LOCATION and row.kind == VARINT:
                location = row.value
            elif row.number == _TENSOR_DIMS:
                for dim in packed(self.data, row, self.budget):
                    if dim < 0:
                        raise WireError(f"tensor {name[:80]!r} has the dimension {dim}")
        if location == _EXTERNAL:
            self._refer(name, dict(external))
        return name

    def _refer(self, name: str, words: dict[str, str]) -> None:
        if len(self.external) >= _MAX_TENSORS:
            raise WireError("the file has too many fields")
        try:
            offset = int(words.get("offset", "0") or "0")
            length = int(words["length"]) if words.get("length") else None
        except ValueError as error:
            raise WireError(f"external data of {name[:80]!r} has no usable offset") from error
        if offset < 0 or (length or 0) < 0:
            raise WireError(f"external data of {name[:80]!r} has a negative offset or length")
        self.initializer_bytes += length or 0
        self.external.append(ExternalRef(name, words.get("location", ""), offset, length))

    def _pair(self, pair: Field) -> tuple[str, str]:
        words = {1: "", 2: ""}
        for row in fields(self.data, pair.start, pair.end, self.budget):
            if row.number in words and row.kind == BYTES:
                words[row.number] = text(self.data, row)
        return words[1], words[2]

    def _value(self, value: Field) -> TensorView:
        name, dtype, shape = "", "undefined", list[int | str | None]()
        for row in fields(self.data, value.start, value.end, self.budget):
            if row.number == 1 and row.kind == BYTES:
                name = text(self.data, row)
            elif row.number == 2 and row.kind == BYTES:  # noqa: PLR2004 - ValueInfoProto.type
                dtype, shape = self._type(row)
        return TensorView(name=name, dtype=dtype, shape=shape)

    def _type(self, kind: Field) -> tuple[str, list[int | str | None]]:
        for row in fields(self.data, kind.start, kind.end, self.budget):
            if row.number == 1 and row.kind == BYTES:
                return self._tensor_type(row)
            if row.kind == BYTES and row.number in {4, 5, 8, 9}:
                return {4: "sequence", 5: "map", 8: "sparse", 9: "optional"}[row.number], []
        return "undefined", []

    def _tensor_type(self, kind: Field) -> tuple[str, list[int | str | None]]:
        dtype, shape = "undefined", list[int | str | None]()
        for row in fields(self.data, kind.start, kind.end, self.budget):
            if row.number == 1 and row.kind == VARINT:
                known = row.value < len(_DTYPES)
                dtype = _DTYPES[row.value] if known else f"type{row.value}"
            elif row.number == 2 and row.kind == BYTES:  # noqa: PLR2004 - TypeProto.Tensor.shape
                shape = [
                    self._dim(dim)
                    for dim in fields(self.data, row.start, row.end, self.budget)
                    if dim.number == 1 and dim.kind == BYTES
                ]
        return dtype, shape

    def _dim(self, dim: Field) -> int | str | None:
        for row in fields(self.data, dim.start, dim.end, self.budget):
            if row.number == 1 and row.kind == VARINT:
                size = signed(row.value)
                return size if size >= 0 else None
            if row.number == 2 and row.kind == BYTES:  # noqa: PLR2004 - Dimension.dim_param
                return text(self.data, row) or None
        return None


def _require_distinct(names: list[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise _twice(name)


def _twice(name: str) -> InvalidModel:
    return InvalidModel(
        f"The name {name[:200]!r} is given twice in the graph.",
        code="invalid_graph",
        why="Each tensor of an ONNX graph has a name of its own.",
        fix="Export the model again, or rename one of the two.",
        tensor=name[:200],
    )
