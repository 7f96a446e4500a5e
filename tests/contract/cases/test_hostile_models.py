"""Every kind of model that has hurt somebody gets the answer that it must get, for each target."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper

from bench.hostile import CASES
from bench.hostile.made import Case
from enginefarm.finding import Finding, Severity
from enginefarm.preflight.alternatives import other_targets
from enginefarm.preflight.check import check, facts_or_finding
from enginefarm.preflight.facts import ModelFacts
from enginefarm.preflight.subject import Room, Subject
from enginefarm.preflight.weights import look_at_weights
from enginefarm.state import Stage
from enginefarm.target import Target
from tests.contract.backends.bench import Bench, found

EACH = [(case, target) for case in CASES for target in case.expected]
# One of each kind goes through the real stages as well.
BUILT = (
    "one name for two tensors",
    "a weight of int16",
    "a slice without axes",
    "fp8",
    "a choice within a choice",
    "a loop that grows",
    "TopK of 5000",
    "Resize with antialiasing",
    "axes from an input",
    "an input that is a size",
    "a batch baked in",
    "a zero point",
)


def findings(case: Case, target: str, folder: Path) -> list[Finding]:
    path = case.write(folder)
    facts = facts_or_finding(path)
    if isinstance(facts, Finding):
        return [facts]
    seen = look_at_weights(path, facts)
    return check(Subject(facts, Target.parse(target), case.profiles, seen=seen))


@pytest.mark.parametrize(
    ("case", "target"), EACH, ids=[f"{case.name}-{target}" for case, target in EACH]
)
def test_the_rules_alone_say_what_must_be_said(case: Case, target: str, tmp_path: Path) -> None:
    told = findings(case, target, tmp_path)
    errors = [each.code for each in told if each.severity is Severity.ERROR]
    if case.expected[target] is None:
        assert errors == []
    else:
        assert case.expected[target] in errors
    for each in told:
        assert each.message.endswith(".")
        assert each.fix or each.severity is Severity.NOTE


@pytest.mark.soak
@pytest.mark.parametrize("name", BUILT)
@pytest.mark.parametrize("backend", ["onnxruntime", "tensorrt-rtx"])
def test_the_stage_and_a_real_build_agree_with_the_rules(
    backend: str, name: str, tmp_path: Path
) -> None:
    there = next((each for each in found().backends if each.name == backend), None)
    if there is None:
        pytest.skip(f"{backend} does not load here")
    arch = "sm_86" if "sm_86" in there.builds else there.builds[0]
    case = next(each for each in CASES if each.name == name)
    expected = case.expected[f"{backend}@{arch}"]
    path = case.write(tmp_path / "model")
    profiles = [
        {name: shapes.model_dump() for name, shapes in profile.items()} for profile in case.profiles
    ]
    bench = Bench(there, arch, tmp_path)
    assert bench.run(Stage.CHECK, path, profiles=profiles).code == expected
    built = bench.run(Stage.COMPILE, path, profiles=profiles).code
    assert built is None if expected is None else built is not None or backend == "onnxruntime"


def test_a_refusal_names_the_targets_that_can(tmp_path: Path) -> None:
    case = next(each for each in CASES if each.name == "fp8")
    facts = facts_or_finding(case.write(tmp_path))
    assert isinstance(facts, ModelFacts)
    subject = Subject(facts, Target.parse("tensorrt-rtx@sm_86"), case.profiles)
    (note,) = other_targets(subject)
    assert note.code == "other_targets"
    assert "tensorrt-rtx@sm_89" in note.message
    assert "tensorrt-rtx@sm_75" not in note.message


@pytest.mark.parametrize("operator", ["my.ops::Blur", "my.ops::Relu", "trt.plugins::NMS_TRT"])
@pytest.mark.parametrize("target", ["onnxruntime@cpu", "tensorrt@sm_89", "tensorrt-rtx@sm_89"])
def test_no_target_is_promised_for_an_operator_that_no_table_has(
    tmp_path: Path, operator: str, target: str
) -> None:
    domain, op = operator.split("::")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], domain=domain)], "g", [x], [y])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    path = tmp_path / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    facts = facts_or_finding(path)
    assert isinstance(facts, ModelFacts)
    assert other_targets(Subject(facts, Target.parse(target), ())) == []


@pytest.mark.parametrize(
    ("served", "why", "fix"),
    [
        (None, "", "one of these"),
        ((), "No live node of the farm builds for any of these now.", "one of these"),
        (("tensorrt-rtx@sm_89", "tensorrt-rtx@sm_75"), "for tensorrt-rtx@sm_89 now", "sm_89,"),
    ],
)
def test_a_refusal_says_which_of_these_targets_the_farm_serves_now(
    tmp_path: Path, served: tuple[str, ...] | None, why: str, fix: str
) -> None:
    case = next(each for each in CASES if each.name == "fp8")
    facts = facts_or_finding(case.write(tmp_path))
    assert isinstance(facts, ModelFacts)
    room = Room(served=served)
    subject = Subject(facts, Target.parse("tensorrt-rtx@sm_86"), case.profiles, room=room)
    (note,) = other_targets(subject)
    assert why in note.why
    assert fix in note.fix
