"""Facts are what the file says, whichever way a writer has chosen to say it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginefarm.finding import Finding
from enginefarm.preflight.check import facts_or_finding
from enginefarm.preflight.reading import read_facts
from localfarm.models import shipped
from tests.unit.enginefarm.preflight.made import facts_of, info, model, weight, whole

KINDS = [
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16,
    TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
    TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("raw", [False, True], ids=["typed", "raw"])
def test_small_constants_have_their_values(tmp_path: Path, kind: int, raw: bool) -> None:  # noqa: FBT001
    tensor = helper.make_tensor("c", kind, [3], np.array([1, 2, 3], np.float32))
    if raw:
        tensor = numpy_helper.from_array(numpy_helper.to_array(tensor), "c")
    facts = facts_of(tmp_path, model([helper.make_node("Relu", ["x"], ["y"])], weights=[tensor]))
    assert facts.graph.weights["c"].values == (1, 2, 3)
    assert facts.graph.weights["c"].shape == (3,)


def test_negative_numbers_and_scalars_are_read(tmp_path: Path) -> None:
    weights = [whole("a", -1, -(2**63), 2**63 - 1), whole("b", -7, shape=[])]
    facts = facts_of(tmp_path, model([helper.make_node("Relu", ["x"], ["y"])], weights=weights))
    assert facts.graph.weights["a"].values == (-1, -(2**63), 2**63 - 1)
    assert facts.graph.weights["b"].values == (-7,)


def test_large_weights_are_not_read_and_their_place_is_known(tmp_path: Path) -> None:
    tensor = weight("w", 64, 64)
    made = model([helper.make_node("Relu", ["x"], ["y"])], weights=[tensor])
    facts = facts_of(tmp_path, made)
    known = facts.graph.weights["w"]
    assert known.values is None
    assert known.at is not None
    start, length = known.at
    assert (tmp_path / "model.onnx").read_bytes()[start : start + length] == tensor.raw_data


def test_attributes_of_every_kind_are_read(tmp_path: Path) -> None:
    node = helper.make_node(
        "Thing", ["x"], ["y"],
        a=3, b=2.5, c="word", d=[1, -2], e=[0.5], f=["p", "q"], g=whole("t", 9),
    )  # fmt: skip
    facts = facts_of(tmp_path, model([node]))
    said = facts.graph.nodes[0].attributes
    assert (said["a"], said["b"], said["c"]) == (3, 2.5, "word")
    assert (said["d"], said["e"], said["f"]) == ((1, -2), (0.5,), ("p", "q"))
    assert getattr(said["g"], "values", None) == (9,)


def test_graphs_inside_nodes_belong_to_their_node(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["t"])], "then", [], [info("t", ["n", 16])]
    )
    other = helper.make_graph(
        [helper.make_node("Abs", ["x"], ["e"])], "else", [], [info("e", ["n", 16])]
    )
    node = helper.make_node("If", ["c"], ["y"], name="if", then_branch=branch, else_branch=other)
    inputs = [info("x", ["n", 16]), info("c", [], TensorProto.BOOL)]
    facts = facts_of(tmp_path, model([node], inputs=inputs))
    labels = ["if", "if/then_branch/#0", "if/else_branch/#0"]
    assert sorted(each.label for each in facts.graph.every_node()) == sorted(labels)
    assert [graph.depth for graph in facts.graph.every_graph()] == [0, 1, 1]


@pytest.mark.parametrize("name", ["minilm-l3", "silero-if", "rapidocr-det"])
def test_real_models_read_as_onnx_reads_them(name: str) -> None:
    path = shipped(name).file()
    loaded, facts = onnx.load(str(path)), read_facts(path)
    assert [node.op for node in facts.graph.nodes] == [node.op_type for node in loaded.graph.node]
    assert [list(node.inputs) for node in facts.graph.nodes] == [
        list(node.input) for node in loaded.graph.node
    ]
    weights = {row.name: tuple(row.dims) for row in loaded.graph.initializer}
    assert {row.name: row.shape for row in facts.graph.weights.values()} == weights


def test_a_file_that_is_no_model_is_one_finding(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x07not a model at all" * 10)
    found = facts_or_finding(path)
    assert isinstance(found, Finding)
    assert (found.severity, found.code) == ("error", "not_a_model")
