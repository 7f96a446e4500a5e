"""All that is wrong with a profile is told at once, whatever the backend."""

from __future__ import annotations

from dataclasses import replace

import pytest

from enginefarm.model_file import ModelScan
from enginefarm.preflight.facts import GraphFacts, ModelFacts
from enginefarm.preflight.rules.profiles import fit_inputs, misfits, names_that_share_no_size
from enginefarm.preflight.subject import Subject
from enginefarm.spec import Profile, ShapeRange
from enginefarm.target import Target
from enginefarm.views import TensorView

SHAPES = {"x": (-1, 3, -1)}


def ranged(low: list[int], usual: list[int], high: list[int]) -> dict[str, ShapeRange]:
    """Return a profile for x."""
    return {"x": ShapeRange(min=low, opt=usual, max=high)}


def test_a_fitting_profile_has_no_misfits() -> None:
    assert list(misfits(SHAPES, [ranged([1, 3, 8], [2, 3, 16], [4, 3, 32])])) == []


def test_static_inputs_need_no_profile() -> None:
    assert list(misfits({"x": (1, 3)}, [])) == []


@pytest.mark.parametrize(
    ("profiles", "code"),
    [
        ([], "profile_required"),
        ([{}], "profile_missing_input"),
        ([ranged([1, 3], [1, 3], [1, 3])], "profile_rank"),
        ([ranged([4, 3, 8], [2, 3, 8], [4, 3, 8])], "profile_order"),
        ([ranged([1, 4, 8], [1, 4, 8], [1, 4, 8])], "profile_static_mismatch"),
        ([ranged([1, 3, 8], [1, 3, 8], [1, 4, 8])], "profile_static_mismatch"),
    ],
)
def test_a_misfit_is_named(profiles: list[dict[str, ShapeRange]], code: str) -> None:
    assert code in {finding.code for finding in misfits(SHAPES, profiles)}


def test_a_misspelt_input_is_named_with_the_nearest() -> None:
    profile = ranged([1, 3, 8], [1, 3, 8], [1, 3, 8])
    profile["xx"] = profile["x"]
    found = list(misfits(SHAPES, [profile]))
    assert [finding.code for finding in found] == ["profile_unknown_input"]
    assert "'x'" in found[0].fix


def span(low: int, high: int) -> ShapeRange:
    return ShapeRange(min=[low], opt=[low], max=[high])


def subject(dims: list[int | str | None], profile: Profile, target: str) -> Subject:
    inputs = [
        TensorView(name=name, dtype="float32", shape=[dim])
        for name, dim in zip("ab", dims, strict=True)
    ]
    facts = ModelFacts(ModelScan(inputs=inputs), GraphFacts(inputs=inputs))
    return Subject(facts, Target.parse(target), [{}, profile])


@pytest.mark.parametrize(
    ("dims", "profile", "places"),
    [
        (["n", "n"], {"a": span(1, 2), "b": span(3, 4)}, "a[0], b[0]"),
        (["?", "?"], {"a": span(1, 2), "b": span(3, 4)}, "a[0], b[0]"),
        (["n", "n"], {"a": span(1, 3), "b": span(3, 4)}, None),
        (["n", "m"], {"a": span(1, 2), "b": span(3, 4)}, None),
        ([None, None], {"a": span(1, 2), "b": span(3, 4)}, None),
        ([2, "n"], {"a": span(2, 2), "b": span(3, 4)}, None),
        (["n", "n"], {"a": span(1, 2)}, None),
    ],
    ids=["apart", "a name for any", "overlap", "two names", "no names", "fixed", "one given"],
)
def test_a_name_needs_a_size_that_suits_all_its_places(
    dims: list[int | str | None], profile: Profile, places: str | None
) -> None:
    found = list(names_that_share_no_size(subject(dims, profile, "tensorrt-rtx@sm_89")))
    assert [each.where for each in found] == ([places] if places else [])
    assert all(each.code == "profile_dim_conflict" for each in found)
    assert all("Profile 1" in each.message for each in found)


def test_a_range_in_the_wrong_order_is_no_conflict_of_names_too() -> None:
    wrong = {"a": span(1, 4), "b": ShapeRange(min=[8], opt=[4], max=[2])}
    of = subject(["n", "n"], wrong, "tensorrt-rtx@sm_89")
    assert list(names_that_share_no_size(of)) == []
    assert "profile_order" in {each.code for each in fit_inputs(of)}


def test_a_name_that_means_nothing_stands_in_nobodys_way_where_names_are_only_words() -> None:
    apart = {"a": span(1, 2), "b": span(3, 4)}
    assert list(names_that_share_no_size(subject(["?", "?"], apart, "onnxruntime@cpu"))) == []
    (found,) = names_that_share_no_size(subject(["n", "n"], apart, "onnxruntime@cpu"))
    assert found.code == "profile_dim_conflict"


def test_dimensions_of_one_name_are_tried_at_one_size() -> None:
    asked = {
        "a": ShapeRange(min=[1], opt=[4], max=[8]),
        "b": ShapeRange(min=[6], opt=[6], max=[9]),
    }
    (_, profile) = subject(["n", "n"], asked, "onnxruntime@cpu").agreed_profiles
    both = ShapeRange(min=[6], opt=[6], max=[8])
    assert profile == {"a": both, "b": both}


def test_a_name_that_means_nothing_and_holds_by_luck_is_noted() -> None:
    overlap = {"a": span(1, 3), "b": span(2, 4)}
    (found,) = names_that_share_no_size(subject(["?", "?"], overlap, "tensorrt-rtx@sm_89"))
    assert (found.severity, found.code) == ("note", "dim_name_placeholder")


def test_a_profile_that_is_missing_is_proposed_as_flags() -> None:
    given = subject(["batch", "batch"], {}, "tensorrt-rtx@sm_89")
    found = list(fit_inputs(replace(given, profiles=())))
    assert {each.code for each in found} == {"profile_required"}
    assert all("--profile a=1:1:8,b=1:1:8" in each.fix for each in found)
