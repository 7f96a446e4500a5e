"""What a search tries, in which order, and when it ends: played with answers made for it."""

from __future__ import annotations

import fnmatch

import pytest

from enginefarm.precision import CalibrationMethod, Precision, PrecisionKind, PrecisionTool
from enginefarm.search_views import Outcome
from tasks.search.strategy import next_step
from tasks.search.tried import Tried
from tests.unit.tasks.search.answers import KINDS, LAYERS, Searched, failed, needing, outcome, spec


def test_what_needs_no_guessing_comes_first_and_the_model_as_it_came_before_all() -> None:
    found = Searched(spec(budget={"at_once": 16}), needing(0))
    first = found.step().proposals
    assert [row.precision.kind for row in first] == [
        *("as-is", "int8", "int8", "fp16", "bf16", "int8"),
    ]
    methods = [row.precision.method for row in first if row.precision.kind is PrecisionKind.INT8]
    assert methods == ["percentile", "minmax", "entropy"]
    assert all(row.why for row in first)


def test_where_plain_int8_is_enough_nothing_else_is_tried() -> None:
    found = Searched(spec(), needing(0))
    assert found.run().why == "nothing was left to try"
    assert found.kept() == [0, 0, 0]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 11, 17, 24, 33])
@pytest.mark.parametrize("guess", [1, 4, 24])
def test_the_fewest_layers_that_must_stay_are_found_however_wrong_the_guess_is(
    count: int, guess: int
) -> None:
    found = Searched(spec(budget={"candidates": 32}), needing(count, guess=guess))
    found.run()
    enough = [kept for kept in found.kept() if kept >= count]
    assert min(enough) == count


def test_what_is_kept_are_the_costliest_layers_by_their_names() -> None:
    found = Searched(spec(), needing(2))
    found.run()
    kept = {
        tuple(row.precision.exclude)
        for row in found.tried
        if row.precision.kind is PrecisionKind.INT8 and row.precision.exclude
    }
    assert ("layer-0", "layer-1") in kept


@pytest.mark.parametrize("name", ["two\nlines", "\x7f", "", "x" * 256, "a\tb"])
def test_a_layer_whose_name_no_build_could_exclude_stays_in_int8_and_ends_no_search(
    name: str,
) -> None:
    def answer(precision: Precision) -> Outcome:
        told = needing(3)(precision)
        names = ["layer-0", name, "layer-1", "layer-1", "layer-2"]
        return told.model_copy(update={"layers": names if told.layers else []})

    found = Searched(spec(), answer)
    assert found.run().over
    assert max(found.kept()) == 3


def test_names_that_look_like_patterns_fit_themselves_alone() -> None:
    def answer(precision: object) -> object:
        told = needing(9)(precision)  # type: ignore[arg-type]
        names = ["a[0]/b*", "c?", "x" * 300, "d"]
        return told.model_copy(update={"layers": names if told.layers else []})

    found = Searched(spec(), answer)  # type: ignore[arg-type]
    found.run()
    longest = max((row.precision.exclude for row in found.tried), key=len)
    assert len(longest) == 3
    assert [fnmatch.fnmatchcase(name, longest[0]) for name in ("a[0]/b*", "a0/bb")] == [True, False]


def test_the_best_method_is_the_one_whose_layers_are_kept() -> None:
    def answer(precision: object) -> object:
        told = needing(2)(precision)  # type: ignore[arg-type]
        best = getattr(precision, "method", None) is CalibrationMethod.MINMAX
        return told if told.met or best else outcome(0.3, layers=told.layers, steps=told.steps)

    found = Searched(spec(), answer)  # type: ignore[arg-type]
    found.run()
    methods = {row.precision.method for row in found.tried if row.precision.exclude}
    assert methods == {CalibrationMethod.MINMAX}


@pytest.mark.parametrize("budget", [1, 3, 7, 12])
def test_a_budget_is_never_exceeded_and_its_end_is_told(budget: int) -> None:
    found = Searched(spec(budget={"candidates": budget}), needing(99))
    said = found.run().why
    assert len(found.tried) == budget
    assert said == f"its budget of {budget} was used up"


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_never_more_are_under_way_than_may_be_at_once(at_once: int) -> None:
    found = Searched(spec(budget={"candidates": 20, "at_once": at_once}), needing(13))
    found.run()
    assert found.most_at_once == at_once


def test_nothing_is_ever_tried_twice() -> None:
    found = Searched(spec(budget={"candidates": 40}), needing(13))
    found.run()
    every = [row.precision.model_dump_json() for row in found.tried]
    assert len(every) == len(set(every))


def test_when_the_time_is_over_nothing_begins_and_what_runs_is_waited_for() -> None:
    found = Searched(spec(), needing(3))
    found.step()
    late = found.step(late=True)
    assert (list(late.proposals), late.over) == ([], False)
    for at in range(len(found.tried)):
        found.end(at)
    done = found.step(late=True)
    assert (list(done.proposals), done.over, done.why) == ([], True, "its time was over")


def test_candidates_that_fail_end_no_search() -> None:
    found = Searched(spec(), lambda _: failed())
    assert found.run().why == "nothing was left to try"
    assert len(found.tried) == 6


def test_where_no_number_of_layers_is_enough_it_ends_when_all_but_one_were_kept() -> None:
    found = Searched(spec(budget={"candidates": 60}), needing(99))
    found.run()
    assert max(found.kept()) == len(LAYERS) - 1


def test_what_a_space_excludes_stays_in_every_candidate() -> None:
    space = {
        "tools": ["onnxruntime"],
        "exclude": ["head*"],
        "op_types": ["Conv"],
        "samples": 9,
        "kinds": ["int8", "fp16"],
    }
    found = Searched(spec(space=space), needing(3), kinds=KINDS[:2])
    found.run()
    changed = [
        row.precision for row in found.tried if row.precision.kind is not PrecisionKind.AS_IS
    ]
    assert all(row.exclude[0] == "head*" for row in changed)
    assert {(tuple(row.op_types), row.samples) for row in changed} == {(("Conv",), 9)}


def test_the_same_rows_lead_to_the_same_step_whoever_takes_it() -> None:
    found = Searched(spec(), needing(5))
    for _ in range(12):
        again = [Tried(row.precision, row.outcome) for row in found.tried]
        one, other = (next_step(found.spec, KINDS, rows) for rows in (found.tried, again))
        assert one == other
        if found.step().over:
            break
        found.end(max(at for at, row in enumerate(found.tried) if row.outcome is None))


def test_each_tool_that_is_there_is_tried_by_each_of_its_methods() -> None:
    space = {"tools": ["onnxruntime", "modelopt"]}
    kinds = (*KINDS, PrecisionKind.FP8, PrecisionKind.INT4)
    found = next_step(spec(space=space, budget={"at_once": 16}), kinds, []).proposals
    told = [(row.precision.kind, row.precision.tool, row.precision.method) for row in found]
    assert told == [
        ("as-is", None, None),
        ("int8", None, "percentile"),
        ("int8", "modelopt", "minmax"),
        ("int8", None, "minmax"),
        ("int8", "modelopt", "entropy"),
        ("fp16", None, None),
        ("bf16", None, None),
        ("fp8", None, None),
        ("int4", None, None),
        ("int8", None, "entropy"),
    ]


BOTH = {"tools": ["onnxruntime", "modelopt"]}


def by_modelopt(asked: Precision) -> bool:
    return asked.maker is PrecisionTool.MODELOPT


def test_what_no_node_has_the_tool_for_is_held_back_and_keeps_nothing_else_from_being_tried() -> (
    None
):
    found = Searched(spec(space=BOTH), needing(3), away=by_modelopt)
    last = found.run_while_it_goes_on()
    assert last.waits
    assert not last.over
    assert {row.precision.maker for row in last.held} == {PrecisionTool.MODELOPT}
    assert 3 in found.kept()
    assert not any(by_modelopt(row.precision) for row in found.tried)


def test_what_was_held_back_is_tried_when_a_node_comes_before_the_end() -> None:
    found = Searched(spec(space=BOTH, budget={"candidates": 30}), needing(3), away=by_modelopt)
    found.run_while_it_goes_on()
    found.away = lambda _: False
    last = found.run()
    assert (last.why, list(last.held)) == ("nothing was left to try", [])
    assert sum(by_modelopt(row.precision) for row in found.tried) == 2


def test_when_the_time_is_over_what_was_held_back_is_told() -> None:
    found = Searched(spec(space=BOTH), needing(0), away=by_modelopt)
    found.run_while_it_goes_on()
    last = found.step(late=True)
    assert last.over
    assert len(last.held) == 2
