"""What ONNX's schemas do not allow is refused before a runtime is asked; what they allow is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from bench.mutants import by_checker, by_rules, by_runtime
from bench.mutations import mutants
from enginefarm.finding import Severity
from enginefarm.preflight.check import check
from enginefarm.preflight.rules.grouping import MOST_FAULTS
from enginefarm.preflight.rules.schemas import malformed
from enginefarm.preflight.subject import Subject
from enginefarm.preflight.tables.onnx_schemas import schema_of, table
from enginefarm.target import Target
from tests.unit.enginefarm.preflight.made import (
    ORT,
    RTX,
    codes,
    facts_of,
    found_in,
    info,
    model,
    weight,
    whole,
)

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL
node = helper.make_node


def flow(then: str = "Relu", kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """An If of two branches; the second gives ``kind``."""
    other = [node("Cast", ["x"], ["e"], to=kind)]
    branches = {
        "then_branch": helper.make_graph([node(then, ["x"], ["t"])], "t", [], [info("t", None)]),
        "else_branch": helper.make_graph(other, "e", [], [info("e", None, kind)]),
    }
    nodes = [node("If", ["c"], ["y"], **branches)]
    return model(nodes, inputs=[info("x", ["n", 16]), info("c", [], BOOL)])


WRONG = {
    "newer than the opset": (model([node("Gelu", ["x"], ["y"])]), "unsupported_operator"),
    "gone": (
        model([node("Upsample", ["x", "s"], ["y"])], weights=[weight("s", 2)]),
        "unsupported_operator",
    ),
    "newer, in a branch": (flow("Gelu"), "unsupported_operator"),
    "branches of two types": (flow(kind=INT64), "invalid_graph"),
    "required attribute": (model([node("Concat", ["x", "x"], ["y"])]), "invalid_graph"),
    "attribute of another kind": (
        model([node("Softmax", ["x"], ["y"], axis=1.5)]),
        "unsupported_attribute",
    ),
    "attribute unknown": (model([node("Relu", ["x"], ["y"], slope=1)]), "unsupported_attribute"),
    "inputs too few": (model([node("Add", ["x"], ["y"])]), "invalid_graph"),
    "inputs too many": (model([node("Relu", ["x", "x"], ["y"])]), "invalid_graph"),
    "input left out": (model([node("Add", ["", "x"], ["y"])]), "invalid_graph"),
    "outputs too many": (model([node("Relu", ["x"], ["y", "z"])]), "invalid_graph"),
    "IR from the future": (
        model([node("Relu", ["x"], ["y"])], ir_version=99),
        "unsupported_ir_version",
    ),
    "type not taken": (
        model([node("Not", ["x"], ["b"]), node("Cast", ["b"], ["y"], to=1)]),
        "unsupported_data_type",
    ),
    "type declared wrongly": (
        model([node("Relu", ["x"], ["y"])], outputs=[info("y", ["n", 16], INT64)]),
        "mixed_types",
    ),
    "operands of two types": (
        model([node("Pow", ["x", "x"], ["p"]), node("PRelu", ["p", "w"], ["y"])],
              weights=[whole("w", *range(16))]),
        "mixed_types",
    ),
    "no kernel": (
        model([node("Cast", ["x"], ["d"], to=11), node("Acos", ["d"], ["e"]),
               node("Cast", ["e"], ["y"], to=1)]),
        "unsupported_operator",
    ),
    "axis that is not there": (model([node("Softmax", ["x"], ["y"], axis=7)]), "shape_mismatch"),
    "attribute without sense": (
        model([node("Resize", ["x", "", "s"], ["y"], mode="cubik")],
              weights=[helper.make_tensor("s", 1, [2], [1.0, 1.0])]),
        "unsupported_attribute",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_what_onnx_runtime_does_not_load_is_refused_first(tmp_path: Path, kind: str) -> None:
    made, code = WRONG[kind]
    assert by_runtime(made) is not None or by_checker(made) is not None
    found = [each for each in found_in(tmp_path, made, ORT) if each.severity is Severity.ERROR]
    assert code in codes(found)
    assert all(each.fix for each in found)


def test_the_fault_is_named_with_its_cure(tmp_path: Path) -> None:
    (found,) = found_in(tmp_path, WRONG["newer than the opset"][0], ORT)
    assert found.message == "ONNX has the operator Gelu since opset 20; the model imports opset 17."
    assert found.fix == "Export with opset 20 or newer."
    (found,) = found_in(tmp_path, model([node("Softmax", ["x"], ["y"], axes=1, name="top")]), ORT)
    assert found.message == "Softmax has no attribute axes as of opset 13."
    assert found.fix.startswith("Did you mean 'axis'?")
    assert found.nodes == ("top",)


def test_counts_and_attributes_are_errors_for_every_target_and_types_only_where_known(
    tmp_path: Path,
) -> None:
    for kind in ("inputs too few", "attribute unknown", "gone"):
        made, code = WRONG[kind]
        for target in (RTX, "tensorrt@sm_90"):
            rows = {each.code: each.severity for each in found_in(tmp_path, made, target)}
            assert rows[code] is Severity.ERROR
    rows = {
        each.code: each.severity
        for each in found_in(tmp_path, WRONG["type declared wrongly"][0], RTX)
    }
    assert rows["mixed_types"] is Severity.WARNING


def test_a_newer_format_is_no_error_where_a_repair_lowers_it(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, WRONG["IR from the future"][0])
    for follow, wanted in ((True, []), (False, ["unsupported_ir_version"])):
        found = check(Subject(facts, Target.parse(ORT), repairs_follow=follow))
        assert [each.code for each in found if each.severity is Severity.ERROR] == [
            *wanted,
            "profile_required",
        ]


def static(
    *nodes: onnx.NodeProto, inputs: list[onnx.ValueInfoProto] | None = None, rank: int = 2
) -> onnx.ModelProto:
    return model(
        list(nodes),
        inputs=inputs or [info("x", [2, 16])],
        outputs=[info("y", ["a", "b", "c", "d"][:rank])],
    )


BASES = {
    "relu": static(node("Relu", ["x"], ["y"])),
    "softmax": static(node("Softmax", ["x"], ["y"], axis=1)),
    "concat": static(node("Concat", ["x", "x"], ["y"], axis=0)),
    "cast": static(node("Cast", ["x"], ["y"], to=INT64)),
    "leaky": static(node("LeakyRelu", ["x"], ["y"], alpha=0.1)),
    "flatten": static(node("Flatten", ["x"], ["y"], axis=1)),
    "gather": static(
        node("Gather", ["x", "i"], ["y"], axis=1),
        inputs=[info("x", [2, 16]), info("i", [3], INT64)],
    ),
    "conv": static(
        node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        inputs=[info("x", [1, 3, 8, 8]), info("w", [4, 3, 3, 3])],
        rank=4,
    ),
    "max": static(
        node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], auto_pad="VALID"),
        inputs=[info("x", [1, 3, 8, 8])],
        rank=4,
    ),
}


@pytest.mark.parametrize("name", BASES)
def test_no_mutant_that_anybody_refuses_passes_the_rules(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.onnx"
    missed, alarms = [], []
    for mutation, made in mutants(BASES[name]):
        told = by_rules(path, made)
        refused = by_checker(made) or by_runtime(made)
        if refused and told is None:
            missed.append((mutation, refused))
        elif told is not None and not refused and told not in {"empty_graph", "shape_mismatch"}:
            alarms.append((mutation, told))
    assert not missed
    assert not alarms


def test_the_table_has_an_operator_as_each_opset_has_it() -> None:
    assert table().newest_opset == onnx.defs.onnx_opset_version()
    assert schema_of("Gelu", 17) is None
    older, newer = schema_of("Softmax", 11), schema_of("Softmax", 17)
    assert older is not None
    assert newer is not None
    assert (older.since, newer.since) == (11, 13)
    assert newer.attributes["axis"].kind == "int"
    assert "bfloat16" in newer.types["T"] - older.types["T"]


def test_a_fault_for_each_of_thousands_of_attributes_is_not_a_finding_for_each(
    tmp_path: Path,
) -> None:
    unknown: dict[str, Any] = {f"attribute_{at}": at for at in range(MOST_FAULTS + 500)}
    spoilt = model([node("Relu", ["x"], ["y"], **unknown)])
    target = Target.parse(ORT)
    assert len(list(malformed(Subject(facts_of(tmp_path, spoilt), target)))) == MOST_FAULTS
