"""What single rules say beyond the hostile models: amounts, versions, memory, and silence."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from bench.hostile.made import ranged, tensor, weight
from enginefarm.finding import Finding, Severity, at_nodes, error_finding
from enginefarm.preflight.check import MOST_FINDINGS, ordered
from tests.unit.enginefarm.preflight.made import (
    ORT,
    RTX,
    codes,
    found_in,
    info,
    model,
    relu,
    whole,
)

GIB = 1 << 30


def branch(name: str, op: str, *more: str) -> onnx.GraphProto:
    made = helper.make_node(op, ["x", *more], [name])
    return helper.make_graph([made], name, [], [info(name, None)])


def det(count: int = 1) -> onnx.ModelProto:
    nodes = [helper.make_node("Det", ["x"], [f"d{n}"], name=f"det{n}") for n in range(count)]
    return model([*nodes, helper.make_node("Relu", ["x"], ["y"])])


@pytest.mark.parametrize("target", [ORT, RTX, "tensorrt-rtx@sm_75", "tensorrt@sm_90"])
def test_a_right_model_has_no_findings(tmp_path: Path, target: str) -> None:
    assert found_in(tmp_path, relu(), target) == []


def test_one_fault_is_one_finding_that_counts_its_nodes(tmp_path: Path) -> None:
    (found,) = found_in(tmp_path, det(7))
    assert found.where == "det0, det1, det2, det3, det4, … (7 nodes)"
    assert found.nodes == ("det0", "det1", "det2", "det3", "det4")
    assert found.operator == "Det"


@pytest.mark.parametrize(
    ("target", "version", "severity"),
    [
        (RTX, "1.7.1.116", Severity.ERROR),
        (RTX, None, Severity.ERROR),
        (RTX, "1.9.0.1", Severity.WARNING),
        ("tensorrt@sm_89", "11.4.0.106", Severity.WARNING),
    ],
)
def test_a_table_made_for_another_version_only_warns(
    tmp_path: Path, target: str, version: str | None, severity: Severity
) -> None:
    (found,) = found_in(tmp_path, det(), target, version=version)
    assert (found.code, found.severity) == ("unsupported_operator", severity)


@pytest.mark.parametrize("target", [ORT, RTX, "tensorrt@sm_90", "tensorrt-llm@sm_90"])
@pytest.mark.parametrize("op", ["Frobnicate", "EfficientNMS_TRT", "FlexAttention"])
def test_an_operator_that_nobody_knows_is_an_error_for_every_target(
    tmp_path: Path, target: str, op: str
) -> None:
    nodes = [helper.make_node(op, ["x"], ["a"], name="odd"), helper.make_node("Relu", ["x"], ["y"])]

    found = [each for each in found_in(tmp_path, model(nodes), target) if each.operator]

    (only,) = found
    assert (only.code, only.severity) == ("unsupported_operator", Severity.ERROR)
    assert (only.message, only.nodes) == (f"ONNX has no operator {op}.", ("odd",))


def test_an_operator_that_nobody_knows_is_told_what_it_is_spelt_like(tmp_path: Path) -> None:
    (found,) = found_in(tmp_path, model([helper.make_node("Rellu", ["x"], ["y"])]), ORT)
    assert found.fix.startswith("Did you mean 'Relu'?")


def test_an_operator_that_nobody_knows_is_found_in_a_function_and_a_branch(tmp_path: Path) -> None:
    made = model([helper.make_node("F", ["x"], ["y"], domain="own")], domains=["own"])
    body = [helper.make_node("Frobnicate", ["a"], ["b"])]
    made.functions.append(
        helper.make_function("own", "F", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    )
    (found,) = found_in(tmp_path, made, ORT)
    assert (found.operator, found.where) == ("Frobnicate", "inside a function of the model")

    nodes = [
        helper.make_node(
            "If", ["c"], ["y"], then_branch=branch("a", "Odd"), else_branch=branch("b", "Abs")
        )
    ]
    made = model(nodes, inputs=[info("x", ["n", 16]), info("c", [], TensorProto.BOOL)])
    assert "Odd" in [each.operator for each in found_in(tmp_path, made, ORT)]


def test_an_operator_of_an_opset_that_nobody_here_knows_is_not_judged(tmp_path: Path) -> None:
    made = model([helper.make_node("Frobnicate", ["x"], ["y"])], opset=29)
    assert codes(found_in(tmp_path, made, ORT)) == ["unsupported_opset"]


@pytest.mark.parametrize("target", [ORT, RTX])
def test_broadcasting_by_an_attribute_is_refused_before_it_is_built(
    tmp_path: Path, target: str
) -> None:
    add = helper.make_node("Add", ["x", "w"], ["y"], broadcast=1, axis=1)
    weights = [weight("w", 16)]
    made = model([add], weights=weights, opset=6)
    (found,) = found_in(tmp_path, made, target)
    assert (found.code, found.severity) == ("unsupported_opset", Severity.ERROR)
    assert "version_converter" in found.fix

    add.ClearField("attribute")
    found_later = found_in(tmp_path, model([add], weights=weights, opset=6), target)
    assert codes(found_later) == (["unsupported_operator"] if target == ORT else [])


def test_a_long_name_of_an_operator_is_told_by_its_beginning(tmp_path: Path) -> None:
    (found,) = found_in(tmp_path, model([helper.make_node("Q" * 400, ["x"], ["y"])]), ORT)
    assert len(found.operator) < 200
    assert len(found.message) < 200


def test_a_function_that_the_model_defines_is_no_missing_operator(tmp_path: Path) -> None:
    made = model([helper.make_node("Det", ["x"], ["y"], domain="own")], domains=["own"])
    body = [helper.make_node("Abs", ["a"], ["b"])]
    made.functions.append(
        helper.make_function("own", "Det", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    )
    assert found_in(tmp_path, made) == []


def test_an_operator_inside_a_function_is_found(tmp_path: Path) -> None:
    made = model([helper.make_node("Mine", ["x"], ["y"], domain="own")], domains=["own"])
    body = [helper.make_node("Det", ["a"], ["b"])]
    made.functions.append(
        helper.make_function("own", "Mine", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    )
    (found,) = found_in(tmp_path, made)
    assert (found.code, found.where) == ("unsupported_operator", "inside a function of the model")


def test_an_operator_taken_for_onnxs_own_is_a_warning(tmp_path: Path) -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"], domain="acme")], domains=["acme"])
    (found,) = found_in(tmp_path, made)
    assert (found.code, found.severity) == ("operator_mistaken", "warning")
    assert codes(found_in(tmp_path, made, ORT)) == ["unsupported_operator"]


def test_the_input_that_decides_a_branch_is_named_for_the_repair(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Equal", ["sr", "rate"], ["c"]),
        helper.make_node(
            "If",
            ["c"],
            ["y"],
            name="rate_is",
            then_branch=branch("t", "Relu"),
            else_branch=branch("e", "Unsqueeze", "axis"),
        ),
    ]
    made = model(
        nodes,
        inputs=[info("x", ["n", 16]), info("sr", [], TensorProto.INT64)],
        weights=[whole("rate", 16000, shape=[]), whole("axis", 1)],
    )
    (found,) = found_in(tmp_path, made)
    assert (found.code, found.where) == ("control_flow_unsupported", "rate_is")
    assert "--fix sr=VALUE" in found.fix
    assert found_in(tmp_path, made, ORT) == []


def test_a_branch_that_a_size_decides_names_whose_size(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "first"], ["n"]),
        helper.make_node("Equal", ["n", "one"], ["c"]),
        helper.make_node(
            "If",
            ["c"],
            ["y"],
            then_branch=branch("t", "Relu"),
            else_branch=branch("e", "Unsqueeze", "axis"),
        ),
    ]
    weights = [whole("first", 0, shape=[]), whole("one", 1, shape=[]), whole("axis", 1)]
    (found,) = found_in(tmp_path, model(nodes, weights=weights))
    assert found.code == "control_flow_unsupported"
    assert "the size of x" in found.fix


def test_large_whole_numbers_are_told_and_marks_for_the_end_are_not(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Slice", ["x", "from", "to", "axes"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
        helper.make_node("Add", ["id", "big"], ["z"]),
    ]
    made = model(
        nodes,
        inputs=[info("x", ["n", 16]), info("id", [1], TensorProto.INT64)],
        weights=[whole("from", 0), whole("to", 2**62), whole("axes", 1), whole("big", 2**40)],
    )
    found = found_in(tmp_path, made)
    assert [(each.code, each.where) for each in found] == [("int64_beyond_int32", "big")]


def test_a_profile_far_wider_than_usual_is_noted(tmp_path: Path) -> None:
    far = {"x": ranged([1, 16], [1, 16], [512, 16])}
    (found,) = found_in(tmp_path, relu(), profiles=[far])
    assert (found.code, found.severity) == ("profile_wide", "note")


def test_scales_and_zero_points_hold_for_onnx_runtime_too_where_they_are_wrong(
    tmp_path: Path,
) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    weights = [tensor("s", TensorProto.FLOAT, [], [0.0]), tensor("z", TensorProto.INT8, [], [5])]
    found = found_in(tmp_path, model(nodes, weights=weights), ORT)
    assert [(each.severity, each.code) for each in found] == [
        ("warning", "quantization_scale_invalid")
    ]


def test_findings_are_ordered_told_once_and_not_too_many() -> None:
    many = [error_finding("unsupported_operator", f"Number {n}.") for n in range(150)]
    note = Finding(severity=Severity.NOTE, code="weights_twice", message="Twice.")
    found = ordered([note, *many, *many])
    assert len(found) == MOST_FINDINGS + 1
    assert found[0].severity is Severity.ERROR
    assert found[-1].code == "findings_cut"
    assert "51 more" in found[-1].message


def test_a_name_cannot_steer_a_terminal_or_spoil_a_database() -> None:
    found = at_nodes(error_finding("unsupported_operator", "No."), ["a\0b\x1b[2J" + "c" * 500])
    assert "\0" not in found.where
    assert "\x1b" not in found.where
    assert len(found.nodes[0]) <= 120


def test_the_size_of_an_input_of_whole_numbers_is_not_its_value(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["ids"], ["s"]),
        helper.make_node("Gather", ["s", "first"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["goal"], axis=0),
        helper.make_node("Reshape", ["ids", "goal"], ["y"]),
    ]
    made = model(
        nodes,
        inputs=[info("ids", ["n", 16], TensorProto.INT64)],
        outputs=[info("y", ["n", 4, 4], TensorProto.INT64)],
        weights=[whole("first", 0), whole("rest", 4, 4)],
    )
    assert found_in(tmp_path, made, profiles=[{"ids": ranged([1, 16], [4, 16], [8, 16])}]) == []


def test_what_architectures_of_a_set_lack_is_told_of_each_and_which_to_leave_out(
    tmp_path: Path,
) -> None:
    made = model(
        [
            helper.make_node("DequantizeLinear", ["w", "s"], ["d"]),
            helper.make_node("MatMul", ["x", "d"], ["y"]),
        ],
        weights=[
            tensor("w", TensorProto.FLOAT8E4M3FN, [16, 16], [0.5] * 256),
            tensor("s", TensorProto.FLOAT, [], [1.0]),
        ],
        opset=21,
        ir_version=10,
    )
    found = found_in(tmp_path, made, "tensorrt-rtx@sm_80+sm_86+sm_89")
    lacking = [row for row in found if row.code == "precision_not_on_architecture"]

    assert [row.fix.split(",")[0] for row in lacking] == [
        f"Leave {arch} out of the target" for arch in ("sm_80", "sm_86")
    ]
    assert "precision_not_on_architecture" not in codes(found_in(tmp_path, made, RTX))
