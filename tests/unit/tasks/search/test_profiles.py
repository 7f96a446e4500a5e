"""Profiles are tried for the best of what was found under the build's own, and compared fairly."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.errors import InvalidRequest
from enginefarm.precision import Precision, PrecisionKind
from enginefarm.search import SearchSpec, with_precision
from enginefarm.search_views import Outcome
from tasks.search.profiles import check_alternatives
from tasks.search.words import notes
from tests.unit.tasks.search.answers import MODEL, Searched, failed, needing, outcome, spec

USUAL = {"x": {"min": [1, 4], "opt": [2, 4], "max": [4, 4]}}
WIDE = {"x": {"min": [1, 4], "opt": [8, 4], "max": [8, 4]}}
ONE = {"x": {"min": [1, 4], "opt": [1, 4], "max": [1, 4]}}
BOTH = {"wide": [WIDE], "each": [ONE, WIDE]}


def with_profiles(profiles: dict[str, Any] | None = None, **more: Any) -> SearchSpec:  # noqa: ANN401
    build = {
        "model": MODEL,
        "targets": ["onnxruntime@cpu"],
        "profiles": more.pop("usual", [USUAL]),
        "options": more.pop("options", {}),
    }
    space = {"tools": ["onnxruntime"], "profiles": BOTH if profiles is None else profiles}
    return spec(build=build, space=space, **more)


def names(found: Searched) -> list[str | None]:
    return [row.profile for row in found.tried]


def test_the_precision_is_searched_first_and_profiles_then_for_the_best_of_it() -> None:
    found = Searched(with_profiles(budget={"candidates": 30}), needing(0))
    assert found.run().why == "nothing was left to try"
    plain = names(found).count(None)
    assert names(found)[:plain] == [None] * plain
    assert names(found)[plain:] == ["each", "wide"] * 3
    # The fastest by far is int8 by percentile, and so on: all that is int8 here.
    kinds = {row.precision.kind for row in found.tried[plain:]}
    assert kinds == {PrecisionKind.INT8}


def test_some_of_the_budget_is_kept_for_profiles_however_long_the_precision_takes() -> None:
    found = Searched(with_profiles(budget={"candidates": 10}), needing(33))
    assert found.run().why == "its budget of 10 was used up"
    assert names(found).count(None) == 8
    assert set(names(found)[8:]) == {"wide", "each"}


def test_where_no_precision_can_use_a_profile_the_budget_is_the_precisions() -> None:
    def answer(_: Precision) -> Outcome:
        return outcome(0.5, layers=[f"layer-{n}" for n in range(40)])

    found = Searched(with_profiles(budget={"candidates": 10}), answer)
    found.run()
    assert names(found) == [None] * 10
    nothing = Searched(with_profiles(), lambda _: failed())
    assert nothing.run().over
    assert set(names(nothing)) == {None}


def test_a_candidate_under_another_profile_shares_its_model_and_the_shapes_it_is_measured_at() -> (
    None
):
    asked = with_profiles()
    build = with_precision(asked, Precision(), [], "each")
    assert [row["x"].opt for row in build.profiles] == [[1, 4], [8, 4]]
    assert build.prepared_at == asked.build.profiles
    assert build.options.benchmark.shapes == [{"x": [2, 4]}]
    plain = with_precision(asked, Precision(), [])
    assert (plain.profiles, plain.prepared_at) == (asked.build.profiles, [])
    elsewhere = with_profiles(options={"benchmark": {"shapes": [{"x": [1, 4]}]}})
    for profile in (None, "wide"):
        build = with_precision(elsewhere, Precision(), [], profile)
        assert build.options.benchmark.shapes == [{"x": [1, 4]}]


@pytest.mark.parametrize(
    ("profiles", "usual", "said"),
    [
        ({"one": [ONE]}, [USUAL], "The profile one does not allow x 2x4."),
        ({"other": [{"y": USUAL["x"]}]}, [USUAL], "The profile other does not allow x 2x4."),
        ({"same": [USUAL]}, [USUAL], "The profile same is the same as the build's own."),
        ({"a": [WIDE], "b": [WIDE]}, [USUAL], "The profile b is the same as a."),
        ({"wide": [WIDE]}, [], "the build has no profile"),
    ],
)
def test_a_profile_that_cannot_be_compared_is_refused(
    profiles: dict[str, Any], usual: list[Any], said: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_alternatives(with_profiles(profiles, usual=usual))
    assert refused.value.code == "search_profile"
    assert said in refused.value.message
    check_alternatives(with_profiles())


def test_it_says_from_the_beginning_where_all_are_measured_and_what_is_chance() -> None:
    said = " ".join(notes(with_profiles(), [], reason=None))
    assert "under the profiles each, wide; all are measured at x 2x4" in said
    assert "onnxruntime builds one engine for all profiles" in said
    assert "profiles" not in " ".join(notes(spec(), [], reason=None))


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ({"y": USUAL["x"]}, "It names y, and the build's own profile x."),
        (ONE, "x is [2, 4], the profile allows [1, 4] to"),
    ],
)
def test_what_of_a_profile_does_not_fit_is_named(profile: Any, said: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidRequest) as refused:
        check_alternatives(with_profiles({"one": [profile]}, usual=[USUAL]))
    assert said in refused.value.why
