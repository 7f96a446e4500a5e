"""What single rules say beyond the hostile models: amounts, versions, memory, and silence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.hostile.made import ranged, tensor
from enginefarm.finding import Finding, Severity, at_nodes, error_finding
from enginefarm.preflight import weights as weights_module
from enginefarm.preflight.check import MOST_FINDINGS, ordered
from enginefarm.preflight.rules.memory import estimate
from enginefarm.preflight.subject import Room, Subject
from enginefarm.preflight.weights import look_at_weights
from enginefarm.target import Target
from tests.unit.enginefarm.preflight.made import (
    ORT,
    ROWS,
    RTX,
    codes,
    facts_of,
    found_in,
    info,
    model,
    weight,
    whole,
)

GIB = 1 << 30


def relu() -> onnx.ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"])])


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
    def branch(name: str, op: str, *more: str) -> onnx.GraphProto:
        made = helper.make_node(op, ["x", *more], [name])
        return helper.make_graph([made], name, [], [info(name, None)])

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


def test_what_the_weights_hold_is_counted(tmp_path: Path) -> None:
    values = np.ones((64, 64), np.float32)
    values[0, :3] = np.nan
    values[1, :2] = np.inf
    values[2, 0], values[3, 0] = 1e-40, 1e6
    made = model(
        [helper.make_node("Relu", ["x"], ["y"])], weights=[numpy_helper.from_array(values, "w")]
    )
    facts = facts_of(tmp_path, made)
    seen = look_at_weights(tmp_path / "model.onnx", facts)
    assert seen is not None
    (row,) = seen.tensors
    assert (row.nan, row.infinite, row.denormal, row.beyond_half) == (3, 2, 1, 1)
    assert row.largest == pytest.approx(1e6)
    severities = {each.code: each.severity for each in found_in(tmp_path, made)}
    assert severities == {
        "weights_non_finite": "note",
        "weights_denormal": "note",
        "weights_beyond_fp16": "note",
    }
    assert "warning" in {each.severity for each in found_in(tmp_path, made)}


def test_weights_beside_the_model_are_looked_at_and_never_elsewhere(tmp_path: Path) -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], weights=[weight("w", 64, 64)])
    inner = tmp_path / "inner"
    inner.mkdir()
    path = inner / "model.onnx"
    onnx.save(made, str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
    from enginefarm.preflight.reading import read_facts

    facts = read_facts(path)
    seen = look_at_weights(path, facts)
    assert seen is not None
    assert [row.name for row in seen.tensors] == ["w"]
    (inner / "w.bin").rename(tmp_path / "elsewhere")
    (inner / "w.bin").symlink_to(tmp_path / "elsewhere")
    seen = look_at_weights(path, facts)
    assert seen is not None
    assert (seen.tensors, seen.unread) == ((), ("w",))


def test_large_weights_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_module, "_PIECE", 64)
    values = np.arange(1000, dtype=np.float32)
    made = model(
        [helper.make_node("Relu", ["x"], ["y"])], weights=[numpy_helper.from_array(values, "w")]
    )
    seen = look_at_weights(tmp_path / "model.onnx", facts_of(tmp_path, made))
    assert seen is not None
    assert seen.tensors[0].largest == 999


def test_tied_weights_are_found_as_they_are_and_transposed(tmp_path: Path) -> None:
    table = np.random.default_rng(0).standard_normal((1024, 512)).astype(np.float32)
    tensors = [
        numpy_helper.from_array(table, "embedding"),
        numpy_helper.from_array(table.T.copy(), "head"),
        numpy_helper.from_array(table + 1, "other"),
    ]
    (found,) = found_in(tmp_path, model([helper.make_node("Relu", ["x"], ["y"])], weights=tensors))
    assert (found.code, found.where) == ("weights_twice", "embedding = head")
    assert "2.1 MB" in found.message


def wide() -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("MatMul", ["h", "v"], ["y"]),
    ]
    return model(nodes, weights=[weight("w", 16, 4096), weight("v", 4096, 16)])


def test_memory_is_predicted_from_weights_and_the_largest_sizes(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, wide())
    subject = Subject(facts, Target.parse(RTX), [ROWS])
    told = estimate(subject)
    assert told.weights == 2 * 16 * 4096 * 4
    assert told.activations == 8 * 4 * (16 + 4096 + 16) - 8 * 4 * 16
    assert told.whole
    assert told.device == told.weights + told.activations


@pytest.mark.parametrize(
    ("room", "target", "expected"),
    [
        (Room(), RTX, []),
        (Room(memory_bytes=64 * GIB, gpu_memory_bytes=24 * GIB), RTX, []),
        (Room(memory_bytes=GIB // 8), RTX, ["memory_short"]),
        (Room(memory_bytes=GIB // 8), ORT, ["memory_short"]),
        (Room(memory_bytes=340 << 20), RTX, ["memory_tight"]),
        (Room(gpu_memory_bytes=1 << 16), RTX, ["gpu_memory_short"]),
        (Room(gpu_memory_bytes=1 << 16), ORT, []),
    ],
)
def test_a_job_that_does_not_fit_is_refused_with_the_number(
    tmp_path: Path, room: Room, target: str, expected: list[str]
) -> None:
    found = found_in(tmp_path, wide(), target, room=room)
    assert codes(found) == expected
    assert all("iB" in each.message for each in found)


@pytest.mark.parametrize(
    ("driver", "target", "expected"),
    [
        ("470.82.01", RTX, ["driver_too_old"]),
        ("550.54.15", RTX, []),
        (None, RTX, []),
        ("470.82.01", ORT, []),
    ],
)
def test_a_driver_older_than_the_runtime_needs_is_told(
    tmp_path: Path, driver: str | None, target: str, expected: list[str]
) -> None:
    assert codes(found_in(tmp_path, relu(), target, room=Room(driver=driver))) == expected


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
