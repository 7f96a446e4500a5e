"""With plugins for the backend an operator that nobody knows is a note; the backend decides."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

from enginefarm.finding import Finding, Severity
from enginefarm.preflight.alternatives import able_targets, known_targets
from enginefarm.preflight.check import check, stops
from enginefarm.preflight.subject import Subject
from enginefarm.target import Target
from tests.unit.enginefarm.preflight.made import ORT, ROWS, RTX, facts_of, model

TRT = "tensorrt@sm_89"


def subject(folder: Path, target: str, domain: str, *, plugins: bool, op: str = "Ours") -> Subject:
    """Return a model with an operator that nobody knows, for a target."""
    made = model(
        [
            helper.make_node(op, ["x"], ["h"], name="here", domain=domain),
            helper.make_node("Relu", ["h"], ["y"]),
        ]
    )
    if domain:
        made.opset_import.append(helper.make_opsetid(domain, 1))
    return Subject(facts_of(folder, made), Target.parse(target), [ROWS], plugins=plugins)


def of_plugins(found: list[Finding]) -> list[Finding]:
    return [row for row in found if row.code == "operator_of_plugin"]


@pytest.mark.parametrize(("target", "domain"), [(ORT, "our.ops"), (TRT, "our.ops"), (TRT, "")])
def test_it_is_left_to_the_plugins_and_said_so(tmp_path: Path, target: str, domain: str) -> None:
    found = check(subject(tmp_path, target, domain, plugins=True))
    (note,) = of_plugins(found)
    assert (note.severity, note.operator, note.nodes) == (Severity.NOTE, "Ours", ("here",))
    assert ("our.ops::Ours" in note.message) is bool(domain)
    assert not [row for row in found if row.code == "unsupported_operator"]
    assert not stops(found)


@pytest.mark.parametrize("target", [ORT, TRT, RTX])
def test_without_plugins_it_is_a_fault_as_ever(tmp_path: Path, target: str) -> None:
    found = check(subject(tmp_path, target, "our.ops", plugins=False))
    assert [row.code for row in found if row.operator == "Ours"] == ["unsupported_operator"]
    assert stops(check(subject(tmp_path, target, "", plugins=False)))


def test_onnx_runtime_finds_no_plugin_in_onnxs_own_domain(tmp_path: Path) -> None:
    found = check(subject(tmp_path, ORT, "", plugins=True))
    assert stops(found)
    assert not of_plugins(found)


def test_an_operator_of_onnx_is_still_judged_by_the_rules(tmp_path: Path) -> None:
    found = check(subject(tmp_path, TRT, "", plugins=True, op="ConcatFromSequence"))
    assert not of_plugins(found)
    assert any(row.operator == "ConcatFromSequence" for row in found)


def test_plugins_are_those_of_one_backend_when_other_targets_are_looked_for(tmp_path: Path) -> None:
    asked = subject(tmp_path, TRT, "", plugins=True)
    able = {str(target) for target in able_targets(asked, known_targets())}
    assert "tensorrt@sm_90" in able
    assert not any(name.startswith(("onnxruntime", "tensorrt-rtx")) for name in able)


def test_many_of_them_are_told_shortly(tmp_path: Path) -> None:
    nodes = [helper.make_node(f"Op{at}", ["x"], [f"h{at}"], domain="our.ops") for at in range(60)]
    made: onnx.ModelProto = model([*nodes, helper.make_node("Relu", ["h0"], ["y"])])
    made.opset_import.append(helper.make_opsetid("our.ops", 1))
    found = check(Subject(facts_of(tmp_path, made), Target.parse(ORT), [ROWS], plugins=True))
    assert len(of_plugins(found)) == 51
    assert any("10 more operators" in row.message for row in of_plugins(found))
