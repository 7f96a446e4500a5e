"""Read a model's facts off the wire, within the bounds of the scan, and no weights but small ones.

The scan has refused by then what no reader should look at; here a second, equally bounded walk
keeps the nodes with their attributes. Field numbers are those of ``onnx.proto``.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

from enginefarm.errors import InvalidModel
from enginefarm.model_file import ModelScan, scan_model
from enginefarm.onnx_refusals import too_complex, unreadable
from enginefarm.onnx_types import Tensor, TypeReader, require_bytes, require_varint
from enginefarm.preflight.constants import MAX_VALUES, numbers_of
from enginefarm.preflight.facts import Attribute, GraphFacts, ModelFacts, NodeFacts, TensorFacts
from enginefarm.protobuf_wire import VARINT, BudgetError, Field, Wire, WireError, signed
from enginefarm.views import TensorView

MAX_FIELDS = 8_000_000
_MAX_LISTED = 4096
_VALUES_KEPT = 2_000_000
_GRAPH, _FUNCTION = 7, 25
_NODE, _WEIGHT, _INPUT, _OUTPUT, _VALUE, _SPARSE = 1, 5, 11, 12, 13, 15
_GRAPH_FIELDS = frozenset({_NODE, _WEIGHT, _INPUT, _OUTPUT, _VALUE, _SPARSE})
_NODE_FIELDS = frozenset({1, 2, 3, 4, 5, 7})
_ATTRIBUTE_FIELDS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 20})
_KINDS = (
    "undefined", "float", "int", "string", "tensor", "graph", "floats", "ints", "strings",
    "tensors", "graphs", "sparse_tensor", "sparse_tensors", "type_proto", "type_protos",
)  # fmt: skip
_LONG = frozenset({7, 8})
_OWN_DOMAINS = frozenset({"", "ai.onnx"})


def read_facts(path: Path) -> ModelFacts:
    """Read the facts of an ONNX file.

    Raises:
        InvalidModel: as :func:`enginefarm.model_file.scan_model`.
    """
    scan = scan_model(path)
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return _Reader(Wire(data, max_fields=MAX_FIELDS)).model(scan)
        except BudgetError:
            raise too_complex(f"it has more than {MAX_FIELDS} fields") from None
        except WireError as error:
            raise unreadable(error) from error


class _Reader:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._types = TypeReader(wire)
        self._values_left = _VALUES_KEPT

    def model(self, scan: ModelScan) -> ModelFacts:
        graph, functions = GraphFacts(), set[tuple[str, str]]()
        for row in self._wire.fields(0, self._wire.size, {_GRAPH, _FUNCTION}):
            if row.number == _GRAPH:
                graph = self._graph(row, 0, "")
            else:
                functions.add(self._function(row))
        return ModelFacts(scan, graph, frozenset(functions))

    def _function(self, field: Field) -> tuple[str, str]:
        words = {1: "", 10: ""}
        for row in self._wire.fields(field.value, field.end, words):
            words[row.number] = self._types.text(row)
        return words[10], words[1]

    def _graph(self, field: Field, depth: int, within: str) -> GraphFacts:
        graph = GraphFacts(depth=depth)
        for row in self._wire.fields(field.value, field.end, _GRAPH_FIELDS):
            require_bytes(row)
            if row.number == _NODE:
                graph.nodes.append(self._node(row, f"{within}#{len(graph.nodes)}", depth))
            elif row.number == _WEIGHT:
                weight = self._tensor(row)
                graph.weights[weight.name] = weight
            elif row.number == _SPARSE:
                self._sparse(row, graph)
            else:
                self._declared(row, graph)
        return graph

    def _declared(self, row: Field, graph: GraphFacts) -> None:
        try:
            view = self._types.value(row)
        except InvalidModel:
            if row.number != _VALUE:
                raise
            return  # a hint that makes no sense: there is less to go by, and nothing wrong
        graph.declared[view.name] = view
        rows: dict[int, list[TensorView]] = {_INPUT: graph.inputs, _OUTPUT: graph.outputs}
        if row.number in rows:
            rows[row.number].append(view)

    def _sparse(self, field: Field, graph: GraphFacts) -> None:
        for row in self._wire.fields(field.value, field.end, {1}):
            values = self._tensor(require_bytes(row))
            graph.weights[values.name] = TensorFacts(values.name, values.dtype, values.shape)

    def _node(self, field: Field, number: str, depth: int) -> NodeFacts:
        inputs, outputs, attributes = list[str](), list[str](), list[Field]()
        name, op, domain = "", "", ""
        for row in self._wire.fields(field.value, field.end, _NODE_FIELDS):
            match row.number:
                case 1:
                    inputs.append(self._types.text(row))
                case 2:
                    outputs.append(self._types.text(row))
                case 3:
                    name = self._types.text(row)
                case 4:
                    op = self._types.text(row)
                case 5:
                    attributes.append(row)
                case _:
                    domain = self._types.text(row)
        domain = "" if domain in _OWN_DOMAINS else domain
        label = name or number
        said: dict[str, Attribute] = {}
        graphs: dict[str, GraphFacts] = {}
        kinds = [self._attribute(row, said, graphs, (label, depth, domain)) for row in attributes]
        return NodeFacts(
            label, op, domain, tuple(inputs), tuple(outputs), said, graphs, tuple(kinds)
        )

    def _attribute(
        self,
        field: Field,
        said: dict[str, Attribute],
        graphs: dict[str, GraphFacts],
        place: tuple[str, int, str],
    ) -> tuple[str, str]:
        label, depth, domain = place
        name, kind, value = "", 0, None
        inner: Field | None = None
        several: list[int | float | str] = []
        # Forests of other domains keep a hundred thousand numbers in one attribute: not for us.
        wanted, runs = (_ATTRIBUTE_FIELDS - _LONG, _LONG) if domain else (_ATTRIBUTE_FIELDS, ())
        for row in self._wire.fields(field.value, field.end, wanted, runs=runs):
            if row.number == 1:
                name = self._types.text(row)
            elif row.number == 6:  # noqa: PLR2004 - AttributeProto.g
                inner = row
            elif row.number in {7, 8, 9}:
                several.extend(self._several(row, _MAX_LISTED - len(several)))
            elif row.number == 20:  # noqa: PLR2004 - AttributeProto.type
                kind = require_varint(row)
            else:
                value = self._single(row)
        if inner is not None:
            graphs[name] = self._graph(inner, depth + 1, f"{label}/{name}/")
        elif value is not None or several:
            said[name] = value if value is not None else tuple(several)  # type: ignore[assignment]  # one kind in each list
        return name, _KINDS[kind] if kind < len(_KINDS) else "undefined"

    def _single(self, row: Field) -> Attribute | None:
        match row.number, row.kind:
            case 2, 5:
                return float(struct.unpack("<f", self._wire.slice(row))[0])
            case 3, 0:
                return signed(require_varint(row))
            case 4, _:
                return self._wire.slice(require_bytes(row))[:_MAX_LISTED].decode(errors="replace")
            case 5, _:
                return self._tensor(require_bytes(row))
            case _:
                return None

    def _several(self, row: Field, room: int) -> Iterator[int | float | str]:
        if room <= 0:
            return
        if row.number == 8:  # noqa: PLR2004 - AttributeProto.ints
            for number, value in enumerate(self._wire.packed(row)):
                if number >= room:
                    return
                yield value
        elif row.number == 9:  # noqa: PLR2004 - AttributeProto.strings
            yield self._wire.slice(require_bytes(row))[:256].decode(errors="replace")
        elif row.kind != VARINT:
            raw = self._wire.data[row.value : min(row.end, row.value + 4 * room)]
            yield from (each[0] for each in struct.iter_unpack("<f", raw[: len(raw) // 4 * 4]))

    def _tensor(self, field: Field) -> TensorFacts:
        tensor = self._types.tensor(field)
        values = None
        facts = TensorFacts(
            tensor.name, tensor.dtype, tensor.dims, None, _place(tensor), tensor.external
        )
        if tensor.external is None and facts.elements <= MAX_VALUES and self._values_left > 0:
            values = numbers_of(self._wire, field, tensor.dtype, facts.elements)
            self._values_left -= facts.elements
        return TensorFacts(facts.name, facts.dtype, facts.shape, values, facts.at, facts.external)


def _place(tensor: Tensor) -> tuple[int, int] | None:
    """Return where the values lie, if they lie in one piece and as they are in memory."""
    plain = {4: "float32", 10: "float64"}  # float_data and double_data, packed; 9 is raw_data
    if tensor.external is not None or len(tensor.data) != 1:
        return None
    (row,) = tensor.data
    if row.number != 9 and plain.get(row.number) != tensor.dtype:  # noqa: PLR2004 - raw_data
        return None
    return row.value, row.end - row.value
