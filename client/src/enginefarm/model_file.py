"""Look at an ONNX file without parsing it: inputs, outputs, operators, external data.

A bounded scan of the wire format in plain Python. Weights are skipped by their length and never
loaded; the same code answers at upload, where credentials are near, and on a person's laptop.
Field numbers are those of ``onnx.proto`` (ONNX IR).
"""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from enginefarm.errors import InvalidModel
from enginefarm.file_kind import refuse_other_kinds
from enginefarm.manifest import safe_file_name
from enginefarm.onnx_graph import ExternalRef, GraphScan, GraphScanner, Limits
from enginefarm.protobuf_wire import BYTES, Budget, WireError, fields, text
from enginefarm.views import TensorView

__all__ = ["ExternalRef", "ModelScan", "check_external", "scan_model"]

MAX_NODES = 250_000
_IR_VERSION, _PRODUCER, _GRAPH, _OPSETS, _FUNCTIONS = 1, 2, 7, 8, 25
_OPSET_DOMAIN, _OPSET_VERSION = 1, 2
_FUNCTION_NODE = 7


@dataclass
class ModelScan:
    """What a model file says of itself. Shapes keep dimension names; None where there is none."""

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
    """Scan an ONNX file.

    Raises:
        InvalidModel: ``empty_file``, ``lfs_pointer``, ``pickle_refused``, ``not_a_model``,
            ``model_truncated``, ``empty_graph``, ``invalid_graph``, ``too_many_nodes``.
    """
    if path.stat().st_size == 0:
        raise InvalidModel(
            "The file is empty.", code="empty_file", fix="Export the model again and upload it."
        )
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as held:
        refuse_other_kinds(bytes(held[:512]))
        view = memoryview(held)
        try:
            return _scan(view, max_nodes)
        except WireError as error:
            raise _unreadable(error) from None
        finally:
            view.release()


def _scan(data: memoryview, max_nodes: int) -> ModelScan:
    # A node has a handful of fields; attributes and shapes are why there is room for more.
    budget = Budget(64 * max_nodes + 1_000_000)
    scan = ModelScan()
    graphs: list[tuple[int, int]] = []
    functions: list[tuple[int, int]] = []
    for row in fields(data, 0, len(data), budget):
        if row.number == _IR_VERSION and row.kind != BYTES:
            scan.ir_version = row.value
        elif row.number == _PRODUCER and row.kind == BYTES:
            scan.producer = text(data, row)
        elif row.number == _GRAPH and row.kind == BYTES:
            graphs.append((row.start, row.end))
        elif row.number == _FUNCTIONS and row.kind == BYTES:
            functions.append((row.start, row.end))
        elif row.number == _OPSETS and row.kind == BYTES:
            domain, version = _opset(data, row.start, row.end, budget)
            scan.opsets[domain] = version
    if len(graphs) != 1:
        raise WireError("there is no graph in it" if not graphs else "there are several graphs")
    scanner = GraphScanner(data, budget, Limits(nodes=max_nodes))
    graph = scanner.graph(*graphs[0])
    for start, end in functions:
        scanner.loose_nodes(start, end, _FUNCTION_NODE)
    return _filled(scan, graph, scanner)


def _filled(scan: ModelScan, graph: GraphScan, scanner: GraphScanner) -> ModelScan:
    if not graph.outputs:
        raise InvalidModel(
            "The graph has no outputs." if graph.node_count else "The graph is empty.",
            code="empty_graph",
            fix="Export the model again; a graph needs nodes and outputs.",
        )
    if not scan.opsets:
        raise WireError("it names no operator set")
    scan.inputs = [row for row in graph.inputs if row.name not in graph.initializers]
    scan.outputs = graph.outputs
    scan.node_count = scanner.node_count
    scan.op_types = scanner.op_types
    scan.external = scanner.external
    scan.initializer_bytes = scanner.initializer_bytes
    return scan


def _opset(data: memoryview, start: int, end: int, budget: Budget) -> tuple[str, int]:
    domain, version = "", 0
    for row in fields(data, start, end, budget):
        if row.number == _OPSET_DOMAIN and row.kind == BYTES:
            domain = text(data, row)
        elif row.number == _OPSET_VERSION:
            version = row.value
    return domain or "ai.onnx", version


def _unreadable(error: WireError) -> InvalidModel:
    if error.truncated:
        return InvalidModel(
            "The file ends too early or is not an ONNX model.",
            code="model_truncated",
            why=f"Reading it as protobuf, {error}.",
            fix="Compare its size and sha256 with the original and upload it again.",
        )
    if str(error) == "the file has too many fields":
        return InvalidModel(
            "The file has more parts than the farm reads.",
            code="too_many_nodes",
            fix="Keep weights in initializers or external data, not in nodes.",
        )
    return InvalidModel(
        "The file is not an ONNX model.",
        code="not_a_model",
        why=f"Reading it as protobuf, {error}.",
        fix="Export the model with torch.onnx.export or your framework's converter.",
    )


def check_external(scan: ModelScan, sizes: Mapping[str, int]) -> None:
    """Check the external data a model names against the files that came with it.

    ``sizes`` is the size of each file beside the model, by its plain name.

    Raises:
        InvalidModel: ``external_path_escapes``, ``external_data_missing`` (all of them),
            ``external_data_short``.
    """
    for ref in scan.external:
        _require_inside(ref)
    missing = sorted({ref.location for ref in scan.external} - set(sizes))
    if missing:
        raise InvalidModel(
            f"{len(missing)} file(s) of external data are missing: {', '.join(missing[:20])}.",
            code="external_data_missing",
            why="The model keeps weights in files beside it.",
            fix="Upload these files together with the model, under these names.",
            missing=list(missing),
        )
    for ref in scan.external:
        have, need = sizes[ref.location], ref.offset + (ref.length or 0)
        if need > have:
            raise InvalidModel(
                f"{ref.location} is too short for tensor {ref.tensor!r}.",
                code="external_data_short",
                why=f"The tensor ends at byte {need}, the file has {have}.",
                fix="Upload the file that was written with this model; it may be truncated.",
                tensor=ref.tensor,
                location=ref.location,
            )


def _require_inside(ref: ExternalRef) -> None:
    try:
        safe_file_name(ref.location)
    except ValueError as error:
        raise InvalidModel(
            f"Tensor {ref.tensor!r} names external data outside the upload.",
            code="external_path_escapes",
            why=f"Its location is {ref.location[:200]!r}; only a plain file name is allowed.",
            fix="Save the model with its external data beside it, in files with plain names.",
            tensor=ref.tensor,
            location=ref.location[:200],
        ) from error
