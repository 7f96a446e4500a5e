"""What is fixed becomes a constant, and what follows from it is computed once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from enginefarm.counted import counted
from enginefarm.repair_report import Outcome
from enginefarm.spec import FixedInput
from tests.unit.workers.repair.made import (
    BOOL,
    INT64,
    branch,
    model,
    one,
    ops,
    ran,
    shapes,
    through,
    value,
    weight,
)
from workers.repair.folding import Constants

X = np.arange(8, dtype=np.float32).reshape(2, 4) - 3
RATE = FixedInput(value=16000)


def rate_chooses() -> onnx.ModelProto:
    """Two branches of which an input chooses one, as speech models have for sampling rates."""
    half = helper.make_node("Constant", [], ["half"], value=weight("", np.float32(0.5)))
    then = branch([half, helper.make_node("Mul", ["x", "half"], ["t"])], "t")
    rest = branch([helper.make_node("Neg", ["x"], ["half"])], "half")
    nodes = [
        helper.make_node("Equal", ["sr", "rate"], ["is16"]),
        helper.make_node("If", ["is16"], ["a"], then_branch=then, else_branch=rest),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    inputs = [value("x", 2, 4), value("sr", dtype=INT64)]
    return model(nodes, inputs, [value("y", 2, 4)], [weight("rate", np.int64(16000))])


def squeezed_if_single(axis: int) -> onnx.ModelProto:
    """An If whose branches differ in rank: a compiler needs the condition to be known."""
    then = branch([helper.make_node("Squeeze", ["x", "axis"], ["t"])], "t")
    rest = branch([helper.make_node("Identity", ["x"], ["e"])], "e")
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "at"], ["size"]),
        helper.make_node("Equal", ["size", "one"], ["single"]),
        helper.make_node("If", ["single"], ["y"], then_branch=then, else_branch=rest),
    ]
    weights = [
        weight("at", np.int64(axis)),
        weight("one", np.int64(1)),
        weight("axis", np.array([axis], np.int64)),
    ]
    inputs = [value("x", "batch", 1, "time")]
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    return model(nodes, inputs, [output], weights)


def test_an_input_that_is_fixed_is_no_input_and_its_branch_is_taken_in(tmp_path: Path) -> None:
    made = rate_chooses()
    found, reports = through(made, tmp_path, "fix-inputs", "fold-constants", fixed={"sr": RATE})
    assert [row.name for row in found.graph.input] == ["x"]
    assert ops(found) == ["Mul", "Identity", "Relu"]
    onnx.checker.check_model(found, full_check=True)
    wanted = ran(made, {"x": X, "sr": np.array(16000, np.int64)})
    assert np.array_equal(ran(found, {"x": X})[0], wanted[0])
    for name in ("fix-inputs", "fold-constants"):
        proof = one(reports, name).proof
        assert proof is not None
        assert proof.bit_equal


def test_another_value_takes_the_other_branch(tmp_path: Path) -> None:
    found, _ = through(
        rate_chooses(),
        tmp_path,
        "fix-inputs",
        "fold-constants",
        fixed={"sr": FixedInput(value=8000)},
    )
    assert "Neg" in ops(found)
    assert "Mul" not in ops(found)
    assert np.array_equal(ran(found, {"x": X})[0], np.maximum(-X, 0))


def test_what_may_be_either_stays_a_choice(tmp_path: Path) -> None:
    found, reports = through(rate_chooses(), tmp_path, "fold-constants")
    assert "If" in ops(found)
    assert one(reports, "fold-constants").outcome is Outcome.NOTHING_TO_DO


def test_names_of_a_branch_that_are_taken_outside_get_others(tmp_path: Path) -> None:
    """Both branches may use a name that the graph around them uses, too."""
    made = rate_chooses()
    made.graph.node.append(helper.make_node("Neg", ["y"], ["t"]))
    made.graph.output.append(value("t", 2, 4))
    found, _ = through(made, tmp_path, "fix-inputs", "fold-constants", fixed={"sr": RATE})
    onnx.checker.check_model(found, full_check=True)
    y, t = ran(found, {"x": X})
    assert np.array_equal(y, np.maximum(X * np.float32(0.5), 0))
    assert np.array_equal(t, -y)


def test_a_condition_on_a_shape_is_known_where_that_dimension_is(tmp_path: Path) -> None:
    made = squeezed_if_single(axis=1)
    profile = {"x": shapes([1, 1, 4], [2, 1, 8], [4, 1, 16])}
    found, reports = through(made, tmp_path, "fold-constants", profile=profile)
    assert "If" not in ops(found)
    assert one(reports, "fold-constants").outcome is Outcome.APPLIED
    x = np.ones((2, 1, 8), np.float32)
    assert ran(found, {"x": x})[0].shape == (2, 8)


def test_a_dimension_that_the_profile_fixes_decides_a_branch(tmp_path: Path) -> None:
    made = squeezed_if_single(axis=2)
    profile = {"x": shapes([1, 1, 1], [2, 1, 1], [4, 1, 1])}
    names = ("pin-dimensions", "fold-constants")
    found, _ = through(made, tmp_path, *names, profile=profile)
    assert "If" not in ops(found)
    assert ran(found, {"x": np.ones((3, 1, 1), np.float32)})[0].shape == (3, 1)
    open_ended = {"x": shapes([1, 1, 1], [2, 1, 2], [4, 1, 4])}
    found, _ = through(made, tmp_path, *names, profile=open_ended)
    assert "If" in ops(found)


def test_a_model_without_branches_is_not_pinned(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("Relu", ["x"], ["y"])], [value("x", "n", 4)], [value("y", "n", 4)]
    )
    profile = {"x": shapes([2, 4], [2, 4], [2, 4])}
    _, reports = through(made, tmp_path, "pin-dimensions", "fold-constants", profile=profile)
    assert {row.outcome for row in reports} == {Outcome.NOTHING_TO_DO}


def test_a_fixed_shape_is_written_into_the_model(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("Relu", ["x"], ["y"])], [value("x", "n", 4)], [value("y", "n", 4)]
    )
    found, reports = through(made, tmp_path, "fix-inputs", fixed={"x": FixedInput(shape=[2, 4])})
    dims = found.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims] == [2, 4]
    assert "2x4" in one(reports, "fix-inputs").why


def test_folding_never_makes_much_out_of_little(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["size"], ["zeros"]),
        helper.make_node("ReduceSum", ["zeros"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["z"]),
    ]
    made = rate_chooses()
    made.graph.node.extend(nodes)
    made.graph.initializer.append(weight("size", np.array([4000, 4000], np.int64)))
    made.graph.output.append(value("z", 2, 4))
    found, _ = through(made, tmp_path, "fix-inputs", "fold-constants", fixed={"sr": RATE})
    assert "ConstantOfShape" in ops(found)
    assert len(found.SerializeToString()) < 10_000


@pytest.mark.parametrize("depth", [1, 3])
def test_branches_within_branches_are_taken_in_one_after_the_other(
    tmp_path: Path, depth: int
) -> None:
    inner = [helper.make_node("Neg", ["x"], ["r"])]
    for level in range(depth):
        yes = helper.make_node("Constant", [], [f"yes{level}"], value=weight("", np.array(True)))
        other = branch([helper.make_node("Relu", ["x"], ["o"])], "o")
        then = branch(inner, "r")
        chosen = helper.make_node("If", [f"yes{level}"], ["r"], then_branch=then, else_branch=other)
        inner = [yes, chosen]
    made = model(inner, [value("x", 2, 4)], [value("r", 2, 4)])
    found, reports = through(made, tmp_path, "fold-constants")
    assert "If" not in ops(found)
    assert np.array_equal(ran(found, {"x": X})[0], -X)
    assert f"{counted(depth, 'time')} an If" in one(reports, "fold-constants").why


def test_a_file_from_before_weights_stood_alone_can_be_fixed_too(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("Mul", ["x", "k"], ["y"])],
        [value("x", 2, 4), value("k")],
        [value("y", 2, 4)],
        opset=9,
        ir=3,
    )
    found, _ = through(made, tmp_path, fixed={"k": FixedInput(value=2.0)})
    onnx.checker.check_model(found, full_check=True)
    assert np.array_equal(ran(found, {"x": X})[0], X * 2)


def test_a_branch_keeps_its_names_where_they_are_free(tmp_path: Path) -> None:
    fixed = {"sr": RATE}
    found, _ = through(rate_chooses(), tmp_path, "fix-inputs", "fold-constants", fixed=fixed)
    assert next(node for node in found.graph.node if node.op_type == "Mul").output[0] == "t"


def chosen(read: str, made: str, name: str = "") -> onnx.NodeProto:
    """An If of which the condition is known; the nodes of its branches have one name."""
    then = branch([helper.make_node("Neg", [read], ["t"], name="one")], "t")
    rest = branch([helper.make_node("Abs", [read], ["e"], name="one")], "e")
    return helper.make_node("If", ["c"], [made], name, then_branch=then, else_branch=rest)


def test_nodes_of_two_branches_with_one_name_get_two(tmp_path: Path) -> None:
    nodes = [chosen("x", "a"), chosen("a", "y")]
    inputs, outputs = [value("x", 2, 4)], [value("y", 2, 4)]
    made = model(nodes, inputs, outputs, [weight("c", np.array(True))])
    found, reports = through(made, tmp_path, "fold-constants")
    assert one(reports, "fold-constants").outcome is Outcome.APPLIED
    assert len({node.name for node in found.graph.node}) == len(found.graph.node)
    assert np.array_equal(ran(found, {"x": X})[0], X)


def test_a_node_that_cannot_be_computed_is_left_and_the_rest_is_folded(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Pow", ["two", "minus"], ["q"]),
        helper.make_node("Cast", ["q"], ["qf"], to=onnx.TensorProto.FLOAT),
        chosen("x", "a"),
        helper.make_node("Add", ["a", "qf"], ["y"]),
    ]
    weights = [
        weight("c", np.array(True)),
        weight("two", np.array([2], np.int64)),
        weight("minus", np.array([-1], np.int64)),
    ]
    made = model(nodes, [value("x", 2, 4)], [value("y", 2, 4)], weights)
    found, reports = through(made, tmp_path, "fold-constants")
    assert one(reports, "fold-constants").outcome is Outcome.APPLIED
    assert "If" not in ops(found)
    assert "Pow" in ops(found)


def test_a_noted_shape_that_is_wrong_is_not_believed() -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["where"]),
        helper.make_node("Shape", ["where"], ["y"]),
    ]
    made = model(nodes, [value("x", 2, 4)], [value("y", 2, dtype=INT64)])
    made.graph.value_info.append(value("where", 2, 5, dtype=INT64))
    constants = Constants(made)
    assert [constants.learn(node) for node in made.graph.node] == [None, None]


@pytest.mark.parametrize("where", ["output", "branch"])
def test_a_shape_that_an_output_says_wrongly_is_not_believed(where: str) -> None:
    def place(name: str, node: str) -> onnx.GraphProto:
        made = branch([helper.make_node("NonZero", ["x"], [name], name=node)], name, dtype=INT64)
        made.output[0].CopyFrom(value(name, 2, 8, dtype=INT64))
        return made

    first = helper.make_node("NonZero", ["x"], ["where"])
    if where == "branch":
        then, rest = place("t", "a"), place("e", "b")
        first = helper.make_node("If", ["c"], ["where"], then_branch=then, else_branch=rest)
    nodes = [first, helper.make_node("Shape", ["where"], ["y"])]
    outputs = [value("y", 2, dtype=INT64)]
    outputs += [value("where", 2, 8, dtype=INT64)] if where == "output" else []
    made = model(nodes, [value("x", 2, 4), value("c", dtype=BOOL)], outputs)
    constants = Constants(made)
    assert [constants.learn(node) for node in made.graph.node] == [None, None]


def test_a_size_below_zero_is_any_size() -> None:
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"], axis=3),
        helper.make_node("Shape", ["flat"], ["y"]),
        helper.make_node("Shape", ["x"], ["z"]),
    ]
    outputs = [value("y", 2, dtype=INT64), value("z", 3, dtype=INT64)]
    made = model(nodes, [value("x", -1, -1, 3)], outputs)
    constants = Constants(made)
    assert [constants.learn(node) for node in made.graph.node] == [None, None, None]


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [(-1, -(1 << 63), [2, 1, 0]), (-1, (1 << 63) - 1, None), (-9, -9, None)],
)
def test_a_slice_that_runtimes_read_otherwise_is_left(
    start: int, end: int, wanted: list[int] | None
) -> None:
    numbers = {"w": [0, 1, 2], "a": [start], "b": [end], "axes": [0], "steps": [-1]}
    weights = [weight(name, np.array(row, np.int64)) for name, row in numbers.items()]
    made = model([helper.make_node("Slice", [*numbers], ["y"])], [], [value("y", None)], weights)
    found = Constants(made).learn(made.graph.node[0])
    assert (None if found is None else found.tolist()) == wanted
