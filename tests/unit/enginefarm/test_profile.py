"""A profile that cannot be meant is refused by name, and what to do instead is said."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.errors import InvalidProfile
from enginefarm.profile import check_profiles, dynamic_inputs, measured_at
from enginefarm.spec import Profile, ShapeRange
from enginefarm.views import TensorView
from tests.refused import refused_with

X = TensorView(name="x", dtype="float32", shape=["batch", 3, None])
MASK = TensorView(name="mask", dtype="int64", shape=["batch"])
FIXED = TensorView(name="fixed", dtype="float32", shape=[1, 4])
INPUTS = [X, MASK, FIXED]


def ranges(**inputs: list[list[int]]) -> Profile:
    """Return a profile of smallest, usual and largest shapes."""
    return {
        name: ShapeRange(min=low, opt=usual, max=high)
        for name, (low, usual, high) in inputs.items()
    }


GOOD = ranges(x=[[1, 3, 8], [2, 3, 16], [4, 3, 32]], mask=[[1], [2], [4]])


def refusal(profiles: list[Profile], inputs: list[TensorView] = INPUTS) -> InvalidProfile:
    with pytest.raises(InvalidProfile) as caught:
        check_profiles(inputs, profiles)
    return caught.value


def test_profiles_that_fit_pass() -> None:
    one_size = ranges(fixed=[[1, 4]] * 3)

    assert refused_with(check_profiles, INPUTS, [GOOD, GOOD | one_size]) is None
    assert refused_with(check_profiles, [FIXED], []) is None
    assert refused_with(check_profiles, [FIXED], [one_size]) is None
    assert refused_with(check_profiles, [], []) is None


def test_only_inputs_without_a_fixed_shape_are_dynamic() -> None:
    scalar = TensorView(name="scalar", dtype="float32", shape=[])

    assert dynamic_inputs([*INPUTS, scalar]) == [X, MASK]


BAD: dict[str, tuple[Profile, str, dict[str, Any]]] = {
    "an input that is not there": (
        GOOD | ranges(maks=[[1], [1], [1]]),
        "profile_unknown_input",
        {"input": "maks"},
    ),
    "a dynamic input is left out": (
        {"x": GOOD["x"]},
        "profile_missing_input",
        {"missing": ["mask"]},
    ),
    "too few dimensions": (
        GOOD | ranges(x=[[1, 3, 8], [2, 3], [4, 3, 32]]),
        "profile_rank",
        {"input": "x", "profile": 0},
    ),
    "another size than the model fixes": (
        GOOD | ranges(x=[[1, 3, 8], [2, 3, 16], [4, 4, 32]]),
        "profile_static_mismatch",
        {"axis": 1, "model": 3, "max": 4},
    ),
    "another size for a whole fixed input": (
        GOOD | ranges(fixed=[[2, 4]] * 3),
        "profile_static_mismatch",
        {"input": "fixed", "axis": 0},
    ),
    "the usual above the largest": (
        GOOD | ranges(x=[[1, 3, 8], [2, 3, 64], [4, 3, 32]]),
        "profile_order",
        {"axis": 2, "min": 8, "opt": 64, "max": 32},
    ),
    "the smallest above the usual": (
        GOOD | ranges(x=[[1, 3, 20], [2, 3, 16], [4, 3, 32]]),
        "profile_order",
        {"axis": 2},
    ),
    "nothing as the smallest": (
        GOOD | ranges(x=[[1, 3, 0], [2, 3, 16], [4, 3, 32]]),
        "profile_zero_dim",
        {"axis": 2},
    ),
    "two ranges for one name": (
        GOOD | ranges(mask=[[1], [2], [8]]),
        "profile_dim_conflict",
        {"dimension": "batch", "places": ["x[0]", "mask[0]"]},
    ),
}


@pytest.mark.parametrize(("profile", "code", "context"), BAD.values(), ids=BAD.keys())
def test_each_misfit_is_told_with_its_place(
    profile: Profile, code: str, context: dict[str, Any]
) -> None:
    error = refusal([profile])

    assert (error.code, bool(error.message), bool(error.fix)) == (code, True, True)
    assert context.items() <= error.context.items()


def test_the_second_profile_is_looked_at_as_the_first_is() -> None:
    error = refusal([GOOD, GOOD | ranges(mask=[[4], [2], [4]])])

    assert error.code == "profile_order"
    assert error.context["profile"] == 1


def test_the_nearest_input_is_named() -> None:
    assert "'mask'" in refusal([GOOD | ranges(maks=[[1], [1], [1]])]).fix
    assert refusal([ranges(x=[[1], [1], [1]])], []).fix == "The model has no inputs."


def test_a_model_that_needs_a_profile_gets_one_proposed_that_fits() -> None:
    error = refusal([])

    assert error.code == "profile_required"
    assert "x [batch, 3, ?]" in error.message
    proposed: Any = error.context["proposed_profile"]
    assert set(proposed) == {"x", "mask"}
    check_profiles(INPUTS, [{name: ShapeRange(**row) for name, row in proposed.items()}])
    assert str(error.context["flags"]) in error.fix


def test_what_is_proposed_for_a_missing_input_is_only_that_input() -> None:
    flags = str(refusal([{"x": GOOD["x"]}]).context["flags"])

    assert "mask=" in flags
    assert "x=" not in flags


@pytest.mark.parametrize("name", ["?", "-1", "None", "unk", "nan"])
def test_a_name_that_means_any_joins_no_dimensions(name: str) -> None:
    rows = [TensorView(name=each, dtype="float32", shape=[name]) for each in ("a", "b")]

    assert (
        refused_with(check_profiles, rows, [ranges(a=[[1], [1], [1]], b=[[2], [2], [2]])]) is None
    )


def test_each_profile_is_measured_at_its_opt_or_shapes_under_the_first_that_holds_them() -> None:
    small = ranges(x=[[1, 3, 8], [1, 3, 8], [2, 3, 16]], mask=[[1], [1], [2]])
    assert measured_at([small, GOOD], []) == [small, GOOD]
    shapes = [{"x": [2, 3, 16], "mask": [2]}, {"x": [4, 3, 32], "mask": [4]}]
    found = measured_at([small, GOOD], shapes)
    assert [row["x"].opt for row in found] == [[2, 3, 16], [4, 3, 32]]
    assert [row["x"].max for row in found] == [[2, 3, 16], [4, 3, 32]]


@pytest.mark.parametrize(
    "shapes",
    [
        {"x": [5, 3, 8], "mask": [1]},
        {"x": [1, 3], "mask": [1]},
        {"x": [1, 3, 8]},
        {"x": [1, 3, 8], "mask": [1], "y": [1]},
    ],
)
def test_what_no_profile_holds_is_not_measured(shapes: dict[str, list[int]]) -> None:
    assert measured_at([GOOD], [shapes]) == []
