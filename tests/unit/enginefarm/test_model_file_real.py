"""On twelve real models the scan says what onnx's own reader says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx
import pytest
from onnx import TensorProto

from enginefarm.model_file import scan_model
from enginefarm.onnx_types import dtype_name
from enginefarm.views import TensorView
from localfarm.models import MODELS, ShippedModel


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.name))
def test_a_scan_agrees_with_the_reader_of_onnx(model: ShippedModel) -> None:
    path = model.file()
    proto = onnx.load(str(path), load_external_data=False)
    weights = {tensor.name for tensor in proto.graph.initializer}

    found = scan_model(path)

    assert found.ir_version == proto.ir_version
    assert found.producer == f"{proto.producer_name} {proto.producer_version}".strip()
    assert found.opsets == {row.domain or "ai.onnx": row.version for row in proto.opset_import}
    assert found.inputs == [_view(row) for row in proto.graph.input if row.name not in weights]
    assert found.outputs == [_view(row) for row in proto.graph.output]
    nodes = list(_nodes(proto.graph))
    assert found.node_count == len(nodes)
    assert found.op_types == Counter(
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in nodes
    )
    assert found.external == []
    raw = sum(len(tensor.raw_data) for tensor in proto.graph.initializer)
    assert raw <= found.initializer_bytes <= path.stat().st_size


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)


def _view(row: onnx.ValueInfoProto) -> TensorView:
    kind = row.type.WhichOneof("value")
    if kind != "tensor_type":
        return TensorView(name=row.name, dtype="sequence(map(int64,float32))", shape=[])
    tensor = row.type.tensor_type
    return TensorView(
        name=row.name,
        dtype=dtype_name(tensor.elem_type),
        shape=[_dim(dim) for dim in tensor.shape.dim],
    )


def _dim(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dim.dim_param or None


def test_the_names_of_types_follow_those_of_onnx() -> None:
    own = {"FLOAT": "float32", "DOUBLE": "float64"}

    for name, number in TensorProto.DataType.items():
        assert dtype_name(number) == own.get(name, name.lower())
