"""Gates on the model file are judged where no engine can be run."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.report import BuildReport
from enginefarm.spec import Gate
from tasks.gates import judge
from tests.unit.tasks.test_gates import output, report


def with_model_file(told: BuildReport, *outputs: dict[str, Any], why: str = "") -> BuildReport:
    """Return a report of a model in another precision, with the accuracy of its file."""
    accuracy = {
        "reference": "r",
        "data": "d",
        "synthetic": True,
        "samples": 1,
        "outputs": list(outputs),
    }
    precision = {
        "recipe": {"kind": "int8", "tool": "onnxruntime", "tool_version": "1"},
        "nodes": 2,
        "changed": 1,
        "model_accuracy": None if why else accuracy,
        "model_accuracy_reason": why or None,
        "model_bytes": 1,
        "seconds": 0.1,
    }
    body = told.model_dump(mode="json") | {"precision": precision}
    return BuildReport.model_validate(body)


@pytest.mark.parametrize(
    ("gate", "value", "missed"),
    [
        ({"metric": "model.cosine", "at_least": 0.99}, 0.97, 0.02),
        ({"metric": "model.cosine", "at_least": 0.96}, 0.97, None),
        ({"metric": "model.cosine", "at_least": 0.99, "output": "y"}, 0.995, None),
        ({"metric": "model.max_abs_error", "at_most": 0.1}, 0.5, 0.4),
    ],
)
def test_a_gate_on_the_model_file_is_judged_without_a_run_of_the_engine(
    gate: dict[str, Any], value: float, missed: float | None
) -> None:
    file = [output("y", cosine=0.995), output("z", cosine=0.97, max_abs_error=0.5)]
    told = with_model_file(report(measured=False), *file)
    (verdict,) = judge([Gate.model_validate(gate)], told)
    assert (verdict.value, verdict.met) == (value, missed is None)
    assert verdict.missed_by == (None if missed is None else pytest.approx(missed))
    assert verdict.gate.startswith(gate["metric"])


def test_a_model_file_that_was_not_measured_meets_no_gate() -> None:
    gate = Gate.model_validate({"metric": "model.cosine", "at_least": 0.5})
    for told, why in (
        (report(output("y")), "the model was built in the precision it came in"),
        (
            with_model_file(report(output("y")), why="no output is a tensor"),
            "no output is a tensor",
        ),
    ):
        (verdict,) = judge([gate], told)
        assert (verdict.met, verdict.reason) == (False, why)


def test_the_model_file_may_be_held_against_that_of_a_published_artifact() -> None:
    named = with_model_file(report(measured=False), output("y", cosine=0.99))
    told = with_model_file(report(measured=False), output("y", cosine=0.97))
    digest = "sha256:" + "1" * 64
    gate = Gate.model_validate({"metric": "model.cosine", "against": digest, "worse_by": 0.01})
    (verdict,) = judge([gate], told, {digest: named})
    assert not verdict.met
    assert verdict.missed_by == pytest.approx(0.01)
