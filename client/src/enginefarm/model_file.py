"""Look at an ONNX file without parsing it: inputs, outputs, operators, external data.

A bounded scan of the wire format in plain Python. Weights are skipped by their length and never
loaded; the same code answers at upload, in a process of its own, and on a person's laptop.
Field numbers are those of ``onnx.proto`` (ONNX IR).
"""

from __future__ import annotations

import mmap
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from enginefarm.errors import InvalidModel
from enginefarm.external_data import check_external
from enginefarm.file_kind import SNIFFED_BYTES, refuse_other_kinds
from enginefarm.onnx_graph import Graph, GraphWalker
from enginefarm.onnx_refusals import (
    invalid_graph,
    not_a_model,
    too_complex,
    truncated,
    unreadable,
)
from enginefarm.onnx_types import ExternalRef, TypeReader, require_bytes, require_varint
from enginefarm.protobuf_wire import BudgetError, CutError, Field, Wire, WireError, low32
from enginefarm.tensor import TensorView

__all__ = [
    "MAX_NODES",
    "ExternalRef",
    "ModelScan",
    "check_external",
    "scan_mapped",
    "scan_model",
    "scan_open_model",
]

MAX_NODES = 200_000
# A node with its names and attributes has ten to fifteen fields; the floor leaves room for models
# that hold vocabularies, a field for each word.
_FIELDS_PER_NODE, _FEWEST_FIELDS = 15, 1_000_000
_IR_VERSION, _PRODUCER, _PRODUCER_VERSION, _GRAPH, _OPSET, _TRAINING, _FUNCTION = (
    1,
    2,
    3,
    7,
    8,
    20,
    25,
)
_MODEL_FIELDS = frozenset(
    {_IR_VERSION, _PRODUCER, _PRODUCER_VERSION, _GRAPH, _OPSET, _TRAINING, _FUNCTION}
)
_OPSET_DOMAIN, _OPSET_VERSION = 1, 2
_OPSET_FIELDS = frozenset({_OPSET_DOMAIN, _OPSET_VERSION})
# What a CoreML model holds instead of a graph: a pipeline, a neural network, a program, trees, …
_COREML = frozenset({200, 201, 202, 300, 301, 302, 303, 400, 401, 402, 403, 404, 500, 502, 900})
_NEWEST_THINKABLE_IR = 1000
_OPSET_SINCE_IR = 3
_MAX_OPSETS = 256
_OWN_DOMAIN = "ai.onnx"


@dataclass
class ModelScan:
    """What a model file says of itself.

    ``opsets`` has versions by domain, "ai.onnx" for ONNX's own. ``inputs`` are those that a caller
    must give: initializers that are listed as inputs, too, are left out. A shape keeps the names of
    its dimensions; None where a dimension has neither number nor name. Operators of other domains
    are counted as ``domain::Operator``, those inside branches and loops, too.
    """

    ir_version: int = 0
    producer: str = ""
    opsets: dict[str, int] = field(default_factory=dict)
    inputs: list[TensorView] = field(default_factory=list)
    outputs: list[TensorView] = field(default_factory=list)
    node_count: int = 0
    op_types: Counter[str] = field(default_factory=Counter)
    external: list[ExternalRef] = field(default_factory=list)
    initializer_bytes: int = 0


def scan_model(path: Path, *, max_nodes: int = MAX_NODES) -> ModelScan:
    """Scan an ONNX file by its path; otherwise as :func:`scan_open_model`."""
    with path.open("rb") as stream:
        return scan_open_model(stream, max_nodes=max_nodes)


def scan_open_model(stream: BinaryIO, *, max_nodes: int = MAX_NODES) -> ModelScan:
    """Scan an ONNX file that is open, mapped into memory and never read as a whole.

    Raises:
        InvalidModel: ``empty_file``, ``lfs_pointer``, ``pickle_refused``, ``not_a_model``,
            ``model_truncated``, ``empty_graph``, ``invalid_graph``, ``opset_missing``,
            ``external_data_invalid``, ``too_many_nodes``, ``graph_too_deep``,
            ``model_too_complex``.
    """
    if os.fstat(stream.fileno()).st_size == 0:
        raise InvalidModel(
            "The model file is empty.",
            code="empty_file",
            why="It has 0 bytes: an export, a copy or a download stopped before it began.",
            fix="Export or fetch the model again.",
        )
    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return scan_mapped(data, max_nodes=max_nodes)


def scan_mapped(data: mmap.mmap, *, max_nodes: int = MAX_NODES) -> ModelScan:
    """Scan an ONNX file that is mapped into memory; otherwise as :func:`scan_open_model`."""
    refuse_other_kinds(data[:SNIFFED_BYTES], data[-SNIFFED_BYTES:], len(data))
    max_fields = max(_FEWEST_FIELDS, _FIELDS_PER_NODE * max_nodes)
    wire = Wire(data, max_fields=max_fields)
    try:
        return _Model(wire, GraphWalker(wire, max_nodes)).scanned()
    except BudgetError:
        raise too_complex(
            f"it has more than {max_fields} fields, or more numbers than 256 MiB"
        ) from None
    except WireError as error:
        raise unreadable(error) from error


class _Model:
    """The top of a file: what is in it, then its graph, then whether both make a model."""

    def __init__(self, wire: Wire, walker: GraphWalker) -> None:
        self._wire = wire
        self._walker = walker
        self._types = TypeReader(wire)
        self._scan = ModelScan()
        self._graphs: list[Field] = []
        self._opsets: list[Field] = []
        self._coreml = False

    def scanned(self) -> ModelScan:
        scan, walker = self._scan, self._walker
        inner = self._top()
        scan.opsets = dict(map(self._opset, self._opsets))
        self._require_model()
        graph = walker.graph(self._graphs[0].value, self._graphs[0].end)
        for row in inner:
            walk = walker.function if row.number == _FUNCTION else walker.training
            walk(row.value, row.end)
        _require_whole(graph)
        scan.inputs = [row for row in graph.inputs if row.name not in graph.initializers]
        scan.outputs = graph.outputs
        scan.node_count = walker.node_count
        scan.op_types = walker.op_types
        scan.external = walker.external
        scan.initializer_bytes = walker.initializer_bytes
        return scan

    def _top(self) -> list[Field]:
        """Read the outermost message; return the functions and training graphs, not yet walked."""
        inner: list[Field] = []
        try:
            for row in self._wire.fields(0, self._wire.size, _MODEL_FIELDS | _COREML):
                if row.number in _COREML:
                    self._coreml = True
                elif row.number in {_FUNCTION, _TRAINING}:
                    inner.append(require_bytes(row))
                else:
                    self._field(row)
        except CutError as error:
            # Only what began as a model is called a model that was cut.
            if self._scan.ir_version:
                raise truncated(error, self._wire.size) from error
            raise
        return inner

    def _field(self, row: Field) -> None:
        scan = self._scan
        if row.number == _IR_VERSION:
            scan.ir_version = require_varint(row)
            if not 1 <= scan.ir_version <= _NEWEST_THINKABLE_IR:
                raise WireError(f"{scan.ir_version} is no IR version", row.end)
        elif row.number == _PRODUCER:
            scan.producer = _shown(self._wire.slice(require_bytes(row)))
        elif row.number == _PRODUCER_VERSION:
            scan.producer = (
                f"{scan.producer} {_shown(self._wire.slice(require_bytes(row)))}".strip()
            )
        elif row.number == _GRAPH:
            self._graphs.append(require_bytes(row))
            if len(self._graphs) > 1:
                raise WireError("there is a second graph", row.value)
        elif row.number == _OPSET:
            self._opsets.append(require_bytes(row))
            if len(self._opsets) > _MAX_OPSETS:
                raise too_complex(f"it names more than {_MAX_OPSETS} operator sets")

    def _opset(self, field_: Field) -> tuple[str, int]:
        domain, version = "", 0
        for row in self._wire.fields(field_.value, field_.end, _OPSET_FIELDS):
            if row.number == _OPSET_DOMAIN:
                domain = self._types.label(row)
            else:
                version = low32(require_varint(row))
        return domain or _OWN_DOMAIN, version

    def _require_model(self) -> None:
        scan = self._scan
        if not scan.ir_version:
            raise not_a_model("it has no IR version, which every ONNX model begins with")
        if not self._graphs and self._coreml:
            raise not_a_model(
                "it is a CoreML model",
                "Export the original model to ONNX; a CoreML model does not turn back into one.",
            )
        if not self._graphs:
            raise InvalidModel(
                "The model has no graph.",
                code="empty_graph",
                why="The file ends behind its header, or holds another kind of protobuf.",
                fix="Compare its size with the original, or export the model again.",
            )
        if not scan.opsets and scan.ir_version >= _OPSET_SINCE_IR:
            raise InvalidModel(
                "The model names no operator set.",
                code="opset_missing",
                why="Without it nobody knows what its operators mean; it stands at a file's end, so"
                " the file may have been cut.",
                fix="Compare the file's size with the original, or export the model again.",
            )
        scan.opsets = scan.opsets or {_OWN_DOMAIN: 1}


def _require_whole(graph: Graph) -> None:
    if not graph.node_count or not graph.outputs:
        lacks = "no nodes" if not graph.node_count else "no outputs"
        raise InvalidModel(
            f"The model's graph has {lacks}.",
            code="empty_graph",
            why="There is nothing to build.",
            fix="Export the model again; when a part is cut out of it, name the part's outputs.",
        )
    graph.require_outputs_made()
    for row in graph.inputs:
        if row.dtype == "undefined" and row.name not in graph.initializers:
            raise invalid_graph(f"Input {row.name[:200]!r} of the graph has no type.", "")


def _shown(raw: bytes) -> str:
    """Return a text that only people read, as far as it can be shown."""
    return "".join(each for each in raw[:200].decode(errors="replace") if each.isprintable())
