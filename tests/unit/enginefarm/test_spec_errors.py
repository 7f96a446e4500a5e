"""A body that does not fit is explained: where, what is wrong, and the nearest right name."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from enginefarm.errors import InvalidRequest
from enginefarm.spec import BuildSpec, Gate
from enginefarm.spec_errors import explain, explain_rows

GOOD: dict[str, Any] = {"model": f"sha256:{'0' * 64}", "targets": ["onnxruntime@cpu"]}


def explained(**changes: object) -> InvalidRequest:
    with pytest.raises(ValidationError) as caught:
        BuildSpec.model_validate(GOOD | changes)
    return explain(caught.value)


@pytest.mark.parametrize(
    ("changes", "field", "nearest_name"),
    [
        ({"profile": []}, "profile", "profiles"),
        ({"Targets": []}, "Targets", "targets"),
        ({"options": {"compil": {}}}, "options.compil", "compile"),
        (
            {"options": {"benchmark": {"warm_up_ms": 1}}},
            "options.benchmark.warm_up_ms",
            "warmup_ms",
        ),
        ({"gates": [{"metric": "cosine", "at_lest": 1}]}, "gates[0].at_lest", "at_least"),
        ({"profiles": [{"x": {"mn": [1]}}]}, "profiles[0].x.mn", "min"),
        ({"synthetic": {"x": {"hihg": 1}}}, "synthetic.x.hihg", "high"),
        ({"limits": {"runing_s": 1}}, "limits.runing_s", "running_s"),
    ],
)
def test_a_misspelt_field_is_told_by_its_path_with_the_nearest_name(
    changes: dict[str, object], field: str, nearest_name: str
) -> None:
    error = explained(**changes)

    assert error.code == "unknown_field"
    assert repr(field) in error.message
    assert error.fix == f"Did you mean {nearest_name!r}?"


@pytest.mark.parametrize(
    ("changes", "field", "fix"),
    [
        ({"gates": [{"metric": "cosin", "at_least": 1}]}, "gates[0].metric", "'cosine'"),
        (
            {"gates": [{"metric": "cosine", "at_least": 1, "if_unmeasured": "wiat"}]},
            "gates[0].if_unmeasured",
            "'wait'",
        ),
        ({"priority": 10}, "priority", "Give a number of at most 9."),
        ({"model": "abc"}, "model", "openapi"),
        ({"seed": -1}, "seed", "Give a number of at least 0."),
    ],
)
def test_a_value_that_cannot_be_is_told_with_the_nearest_where_there_are_few(
    changes: dict[str, object], field: str, fix: str
) -> None:
    error = explained(**changes)

    assert error.code == "invalid_field"
    assert repr(field) in error.message
    assert error.why.endswith(".")
    assert fix in error.fix


@pytest.mark.parametrize(
    ("changes", "field", "given"),
    [
        ({"priority": True}, "priority", "true"),
        ({"priority": "3"}, "priority", '"3"'),
        ({"seed": "0"}, "seed", '"0"'),
        ({"wait_for_node": False}, "wait_for_node", "false"),
        ({"limits": {"running_s": "60"}}, "limits.running_s", '"60"'),
        (
            {"options": {"compile": {"workspace_mib": True}}},
            "options.compile.workspace_mib",
            "true",
        ),
        ({"profiles": [{"x": {"min": [True], "opt": [1], "max": [1]}}]}, "profiles[0]", "true"),
        ({"gates": [{"metric": "cosine", "at_least": "0.9"}]}, "gates[0].at_least", '"0.9"'),
        ({"gates": [{"metric": "cosine", "at_least": True}]}, "gates[0].at_least", "true"),
        ({"synthetic": {"x": {"value": "1"}}}, "synthetic.x.value", '"1"'),
    ],
)
def test_what_only_looks_like_a_number_is_refused_and_told(
    changes: dict[str, object], field: str, given: str
) -> None:
    error = explained(**changes)

    assert error.code == "invalid_field"
    assert f"'{field}" in error.message
    assert error.why.endswith(f", and this is {given}.")
    assert error.fix == "Write the number itself, without quotes."


def test_a_field_that_is_needed_is_told() -> None:
    with pytest.raises(ValidationError) as caught:
        BuildSpec.model_validate({"targets": GOOD["targets"]})

    error = explain(caught.value)

    assert (error.code, error.message) == ("missing_field", "The field 'model' is missing.")


def test_a_misspelt_field_is_told_before_the_one_that_is_missing_for_it() -> None:
    with pytest.raises(ValidationError) as caught:
        BuildSpec.model_validate({"modle": GOOD["model"], "targets": GOOD["targets"]})

    error = explain(caught.value)

    assert (error.code, error.fix) == ("unknown_field", "Did you mean 'model'?")
    listed: Any = error.context["errors"]
    assert {row["field"] for row in listed} == {"model", "modle"}


def test_a_rule_between_fields_is_told_in_its_own_words() -> None:
    same = explained(targets=["onnxruntime@cpu", "onnxruntime@cpu"])
    unbounded = explained(gates=[{"metric": "cosine"}])

    assert (same.message, same.why) == (
        "The body cannot be right.",
        "The same target is named twice.",
    )
    assert unbounded.why == (
        "A gate needs at_least or at_most, or against with either worse_by or worse_by_percent."
    )


def test_at_most_ten_are_listed_and_long_names_are_cut() -> None:
    error = explained(**{f"{'x' * 200}{number}": 1 for number in range(20)})

    listed: Any = error.context["errors"]
    assert len(listed) == 10
    assert max(len(row["field"]) for row in listed) <= 80
    assert len(error.message) < 200


def test_the_class_is_found_by_the_name_that_the_error_has() -> None:
    with pytest.raises(ValidationError) as caught:
        Gate.model_validate({"metrik": "cosine", "at_least": 1})

    assert explain(caught.value).fix == "Did you mean 'metric'?"


def test_rows_of_a_request_leave_the_word_body_out() -> None:
    row = {"type": "extra_forbidden", "loc": ("body", "sede"), "msg": "Extra inputs"}

    error = explain_rows([row], BuildSpec)

    assert (error.message, error.fix) == ("There is no field 'sede'.", "Did you mean 'seed'?")
    assert explain_rows([row]).fix == "Leave it out."
