"""What changes no computation: order, names, lists of inputs, version numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from enginefarm.repair_report import Outcome
from tests.unit.workers.repair.made import (
    INT64,
    model,
    one,
    ops,
    ran,
    shapes,
    through,
    value,
    weight,
)

X = np.arange(8, dtype=np.float32).reshape(2, 4) - 3


def relu_then_neg(names: str = "nm") -> onnx.ModelProto:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name=names[0]),
        helper.make_node("Neg", ["a"], ["y"], name=names[1]),
    ]
    return model(nodes, [value("x", 2, 4)], [value("y", 2, 4)])


def test_a_model_that_needs_nothing_is_left_byte_for_byte(tmp_path: Path) -> None:
    made = relu_then_neg()
    found, reports = through(made, tmp_path)
    assert found.SerializeToString() == made.SerializeToString()
    assert {row.outcome for row in reports} == {Outcome.NOTHING_TO_DO}


def test_nodes_are_put_after_what_they_read(tmp_path: Path) -> None:
    made = relu_then_neg()
    wanted = ran(made, {"x": X})
    nodes = list(reversed(made.graph.node))
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    assert ops(made) == ["Neg", "Relu"]

    found, reports = through(made, tmp_path, "sort-nodes")

    onnx.checker.check_model(found)
    assert ops(found) == ["Relu", "Neg"]
    assert np.array_equal(ran(found, {"x": X})[0], wanted[0])
    assert one(reports, "sort-nodes").outcome is Outcome.APPLIED


def test_nodes_inside_a_branch_are_sorted_too_and_know_what_lies_around_them(
    tmp_path: Path,
) -> None:
    inner = [
        helper.make_node("Add", ["b", "a"], ["r"]),
        helper.make_node("Neg", ["a"], ["b"]),
    ]
    other = [helper.make_node("Identity", ["a"], ["s"])]
    then = helper.make_graph(inner, "t", [], [value("r", 2, 4)])
    rest = helper.make_graph(other, "e", [], [value("s", 2, 4)])
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=rest),
        helper.make_node("Relu", ["x"], ["a"]),
    ]
    inputs = [value("x", 2, 4), value("c", dtype=onnx.TensorProto.BOOL)]
    found, _ = through(model(nodes, inputs, [value("y", 2, 4)]), tmp_path, "sort-nodes")
    assert ops(found) == ["Relu", "If"]
    got = ran(found, {"x": X, "c": np.array(True)})[0]
    assert np.array_equal(got, np.zeros_like(X))


def test_nodes_in_a_circle_are_left_and_said(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
    ]
    made = model(nodes, [value("x", 1)], [value("b", 1)])
    found, reports = through(made, tmp_path, "sort-nodes")
    assert found.SerializeToString() == made.SerializeToString()
    assert one(reports, "sort-nodes").outcome is Outcome.NOT_APPLIED
    assert "circle" in one(reports, "sort-nodes").why


def test_each_node_gets_a_name_of_its_own_and_the_model_runs(tmp_path: Path) -> None:
    found, reports = through(relu_then_neg("nn"), tmp_path, "unique-names")
    assert [node.name for node in found.graph.node] == ["n", "n_2"]
    assert "it did not before" in one(reports, "unique-names").why
    assert np.array_equal(ran(found, {"x": X})[0], -np.maximum(X, 0))


def test_a_model_with_several_faults_runs_once_the_last_is_mended(tmp_path: Path) -> None:
    made = relu_then_neg("nn")
    nodes = list(reversed(made.graph.node))
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    found, reports = through(made, tmp_path)
    assert "not proven" in one(reports, "sort-nodes").why
    assert "it did not before" in one(reports, "unique-names").why
    assert np.array_equal(ran(found, {"x": X})[0], -np.maximum(X, 0))


def test_weights_are_no_inputs_any_more(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [value("x", 2, 4), value("w", 4)],
        [value("y", 2, 4)],
        [weight("w", np.ones(4, np.float32))],
        ir=3,
        opset=9,
    )
    found, reports = through(made, tmp_path, "weights-not-inputs")
    assert [row.name for row in found.graph.input] == ["x"]
    assert found.ir_version == 4
    assert np.array_equal(ran(found, {"x": X})[0], X + 1)
    assert one(reports, "weights-not-inputs").proof is not None


def defaulted(ir: int = 8) -> onnx.ModelProto:
    """A model whose bias whoever runs it may give, or leave as it is."""
    return model(
        [helper.make_node("Add", ["x", "bias"], ["z"]), helper.make_node("Mul", ["z", "w"], ["y"])],
        [value("x", 2, 4), value("bias", 4)],
        [value("y", 2, 4)],
        [weight("bias", np.ones(4, np.float32)), weight("w", np.full(4, 2, np.float32))],
        ir=ir,
    )


def test_inputs_with_default_values_stay_inputs_and_that_is_said(tmp_path: Path) -> None:
    found, reports = through(defaulted(), tmp_path, "sort-nodes", "weights-not-inputs")
    assert [row.name for row in found.graph.input] == ["x", "bias"]
    told = one(reports, "weights-not-inputs")
    assert told.outcome is Outcome.NOT_APPLIED
    assert "bias" in told.why
    assert "repair.drop_defaults" in told.why


def test_inputs_with_default_values_become_weights_where_that_is_asked_for(tmp_path: Path) -> None:
    found, reports = through(defaulted(), tmp_path, "weights-not-inputs", drop_defaults=True)
    assert [row.name for row in found.graph.input] == ["x"]
    assert one(reports, "weights-not-inputs").outcome is Outcome.APPLIED
    assert np.array_equal(ran(found, {"x": X})[0], (X + 1) * 2)


def test_an_old_file_is_known_as_one_whatever_other_passes_do_first(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("Relu", ["z"], ["y"]), helper.make_node("Add", ["x", "w"], ["z"])],
        [value("x", 2, 4), value("w", 4)],
        [value("y", 2, 4)],
        [weight("w", np.ones(4, np.float32))],
        ir=3,
        opset=9,
    )
    found, reports = through(made, tmp_path, "sort-nodes", "weights-not-inputs")
    assert [row.name for row in found.graph.input] == ["x"]
    assert one(reports, "sort-nodes").outcome is Outcome.APPLIED


def test_axes_that_share_a_placeholder_get_names_of_their_own(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("Relu", ["x"], ["y"])],
        [value("x", "?", 3, "?", "-1")],
        [value("y", "?", 3, "?", "-1")],
    )
    profile = {"x": shapes([1, 3, 4, 4], [1, 3, 4, 8], [2, 3, 8, 16])}
    found, reports = through(made, tmp_path, "unique-dimensions", profile=profile)
    names = [dim.dim_param for dim in found.graph.input[0].type.tensor_type.shape.dim]
    assert len({names[0], names[2], names[3]}) == 3
    assert "?" not in names
    assert not any(d.dim_param for d in found.graph.output[0].type.tensor_type.shape.dim)
    proof = one(reports, "unique-dimensions").proof
    assert proof is not None
    assert [row["x"] for row in proof.shapes] == [[1, 3, 4, 4], [1, 3, 4, 8], [2, 3, 8, 16]]


@pytest.mark.parametrize("name", ["batch", "p2o.DynamicDimension.0", "unk__214", "\u6279"])
def test_a_name_that_means_one_size_stays(tmp_path: Path, name: str) -> None:
    made = model(
        [helper.make_node("Add", ["x", "z"], ["y"])],
        [value("x", name, 4), value("z", name, 4)],
        [value("y", name, 4)],
    )
    both = shapes([1, 4], [2, 4], [4, 4])
    _, reports = through(made, tmp_path, "unique-dimensions", profile={"x": both, "z": both})
    assert one(reports, "unique-dimensions").outcome is Outcome.NOTHING_TO_DO


def test_unread_inputs_are_pruned_and_read_ones_stay(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("Neg", ["unused"], ["nowhere"]),
    ]
    inputs = [value("x", 2, 4), value("unused", 2), value("ids", 3, dtype=INT64)]
    found, reports = through(model(nodes, inputs, [value("y", 2, 4)]), tmp_path, "prune-unused")
    assert [row.name for row in found.graph.input] == ["x"]
    assert ops(found) == ["Relu"]
    assert "unused, ids" in one(reports, "prune-unused").why


def test_an_input_that_only_a_branch_reads_is_read(tmp_path: Path) -> None:
    then = helper.make_graph([helper.make_node("Neg", ["z"], ["r"])], "t", [], [value("r", 2)])
    rest = helper.make_graph([helper.make_node("Relu", ["z"], ["s"])], "e", [], [value("s", 2)])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=rest)]
    inputs = [value("z", 2), value("c", dtype=onnx.TensorProto.BOOL)]
    _, reports = through(model(nodes, inputs, [value("y", 2)]), tmp_path, "prune-unused")
    assert one(reports, "prune-unused").outcome is Outcome.NOTHING_TO_DO


def test_an_old_opset_is_raised_and_gives_the_same(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("Clip", ["x"], ["y"], min=0.0, max=2.0)],
        [value("x", 2, 4)],
        [value("y", 2, 4)],
        opset=6,
        ir=3,
    )
    found, reports = through(made, tmp_path, "raise-opset")
    assert found.opset_import[0].version == 13
    assert one(reports, "raise-opset").outcome is Outcome.APPLIED
    assert np.array_equal(ran(found, {"x": X})[0], np.clip(X, 0, 2))


def test_a_format_version_that_nobody_takes_is_lowered(tmp_path: Path) -> None:
    made = relu_then_neg()
    made.ir_version = int(onnx.IR_VERSION) + 7
    found, reports = through(made, tmp_path, "lower-ir-version")
    assert found.ir_version == int(onnx.IR_VERSION)
    report = one(reports, "lower-ir-version")
    assert report.outcome is Outcome.APPLIED
    assert "IR version" in report.why
    assert np.array_equal(ran(found, {"x": X})[0], -np.maximum(X, 0))


def test_an_opset_that_is_too_new_is_left_for_the_check(tmp_path: Path) -> None:
    made = relu_then_neg()
    made.ir_version = int(onnx.IR_VERSION) + 7
    made.opset_import[0].version = onnx.defs.onnx_opset_version() + 5
    _, reports = through(made, tmp_path)
    assert not [row for row in reports if row.outcome is Outcome.APPLIED and "version" in row.name]


def test_outputs_that_nobody_wants_go_with_what_only_leads_to_them(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("Neg", ["x"], ["aux"]),
        helper.make_node("Exp", ["aux"], ["extra"]),
    ]
    made = model(nodes, [value("x", 2, 4)], [value(n, 2, 4) for n in ("extra", "y")])
    found, reports = through(made, tmp_path, "prune-unused", keep_outputs=["y"])
    assert [row.name for row in found.graph.output] == ["y"]
    assert ops(found) == ["Relu"]
    proof = one(reports, "prune-unused").proof
    assert proof is not None
    assert (proof.bit_equal, proof.outputs) == (True, 2)
