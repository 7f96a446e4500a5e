"""What a node measured is held against what it was asked for, and its numbers against sense."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from enginefarm.errors import JobFailed
from enginefarm.state import Blame, Stage
from tasks.as_asked import check_as_asked
from tests.integration.tasks.fake_facts import LATENCY, accuracy, compared_facts, paired_facts

INTERFACE = {
    "inputs": [{"name": "x", "dtype": "float32", "shape": ["n", 4]}],
    "outputs": [{"name": name, "dtype": "float32", "shape": ["n", 4]} for name in ("y", "text")],
}
PROFILES = [{"x": {"min": [rows, 4], "opt": [rows, 4], "max": [rows, 4]}} for rows in (1, 64)]
RECIPE: dict[str, Any] = {"profiles": PROFILES, "options": {"batches": []}}


def rows(what: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [copy.deepcopy(what[0]) | {"shapes": {"x": [n, 4]}} for n in (1, 64)]


def facts() -> dict[str, Any]:
    told = accuracy(0.999) | {"not_compared": ["text"]}
    beside = paired_facts(1.5, [])["comparison"]
    pairs = {"latency": rows([LATENCY]), "comparison": rows(beside)}
    return {"accuracy": told, "versions": {"onnxruntime": "1.2.3"}} | pairs


def compared() -> dict[str, Any]:
    return facts_of_two() | {"compared": rows(facts_of_two()["compared"])}


def facts_of_two() -> dict[str, Any]:
    return compared_facts(1.5)


def refused(told: dict[str, Any], recipe: dict[str, Any] = RECIPE) -> str:
    with pytest.raises(JobFailed) as failed:
        check_as_asked(Stage.BENCHMARK, recipe, told, INTERFACE)
    assert (failed.value.code, failed.value.blame) == ("result_invalid", Blame.NODE)
    return failed.value.why or ""


def test_what_was_asked_for_is_believed() -> None:
    check_as_asked(Stage.BENCHMARK, RECIPE, facts(), INTERFACE)
    check_as_asked(Stage.BENCHMARK, RECIPE, compared(), INTERFACE)
    apart = facts() | {"comparison": [], "comparison_reason": "the twin does not load"}
    check_as_asked(Stage.BENCHMARK, RECIPE, apart, INTERFACE)
    swept = facts()
    swept["latency"].append(LATENCY | {"shapes": {"x": [8, 4]}, "swept": True})
    check_as_asked(Stage.BENCHMARK, RECIPE | {"options": {"batches": [8]}}, swept, INTERFACE)
    assert "1 shapes of a sweep" in refused(swept)
    only = facts()
    only["accuracy"]["not_compared"] = []
    check_as_asked(Stage.BENCHMARK, RECIPE | {"keep_outputs": ["y"]}, only, INTERFACE)


@pytest.mark.parametrize("what", ["latency", "comparison"])
def test_a_profile_that_is_left_out_or_told_of_twice_is_missed(what: str) -> None:
    told = facts()
    told[what] = told[what][:1]
    assert f"{what} has 1 shapes instead of 2" in refused(told)
    told[what] = told[what] * 2
    assert f"{what} 1 was not measured within its profile" in refused(told)


def test_an_output_that_is_left_out_or_made_up_is_missed() -> None:
    told = facts()
    told["accuracy"]["not_compared"] = []
    assert "nothing is told of output 'text'" in refused(told)
    told["accuracy"]["not_compared"] = ["text", "other"]
    assert "'other' is no output" in refused(told)
    told["accuracy"]["not_compared"] = ["text", "text"]
    assert "told of twice" in refused(told)


@pytest.mark.parametrize(
    ("shapes", "why"),
    [
        ({"not an input": [1]}, "is no input"),
        ({"x": [-5, 4]}, "within its profile"),
        ({"x": [4] * 100_000}, "within its profile"),
    ],
)
def test_shapes_are_of_the_models_inputs(shapes: dict[str, Any], why: str) -> None:
    told = compared()
    told["compared"][0]["shapes"] = shapes
    assert why in refused(told)
    told = facts() | {"comparison": []}
    told["latency"] = [LATENCY | {"shapes": shapes}]
    assert repr(next(iter(shapes))) in refused(told, {"profiles": []})


def test_a_measurement_that_names_no_input_is_not_believed() -> None:
    told = facts() | {"comparison": []}
    told["latency"] = [LATENCY | {"shapes": {}}]
    recipe: dict[str, Any] = {"profiles": []}
    check_as_asked(Stage.BENCHMARK, recipe, told, INTERFACE, [])  # all were fixed to values
    with pytest.raises(JobFailed) as failed:
        check_as_asked(Stage.BENCHMARK, recipe, told, INTERFACE, ["x"])
    assert (failed.value.code, failed.value.blame) == ("result_invalid", Blame.NODE)
    assert failed.value.why == "no input has a shape, of 'x'."


@pytest.mark.parametrize("what", ["latency", "comparison"])
def test_nor_is_one_that_names_it_only_at_some_of_its_shapes(what: str) -> None:
    told = facts()
    told[what][1]["shapes"] = {}
    assert "not the same inputs" in refused(told)
    told = compared()
    for row in told["compared"]:
        row["shapes"] = {}
    assert "no input has a shape" in refused(told)


def changed(told: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    place: Any = told
    *before, last = path.split(".")
    for step in before:
        place = place[int(step) if step.isdigit() else step]
    place[int(last) if last.isdigit() else last] = value
    return told


NO_TIME = "a run takes no time, or for ever"


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("comparison.0.ratios", [1.7e308] * 15, "comparison.ratios is 1.7e+308"),
        ("comparison.0.ratios", [1e10] * 15, "no engine is so many times as fast"),
        ("comparison.1.ratios", [1e-300] * 15, "no engine is so many times as fast"),
        ("comparison.0.twin_p50_ms", 1e300, "comparison.twin_p50_ms is 1e+300"),
        ("latency.0.end_to_end_ms", dict.fromkeys(("p50", "max"), 0.0), NO_TIME),
        ("latency.1.end_to_end_ms", dict.fromkeys(("p50", "max"), 1e12), NO_TIME),
        ("latency.0.throughput_qps", 1e301, "latency.throughput_qps is 1e+301"),
        ("latency.0.peak_memory_bytes", 10**400, "latency.peak_memory_bytes is too large"),
        ("accuracy.data", "d" * 3_000_000, "accuracy.data has 3000000 characters"),
        ("versions", {f"v{i}": "x" for i in range(20_000)}, "20000 versions are named"),
        ("versions", {"onnxruntime": "9" * 5000}, "a version has 5000 characters"),
    ],
)
def test_numbers_and_texts_that_cannot_be_are_the_nodes_fault(
    path: str, value: object, why: str
) -> None:
    assert why in refused(changed(facts(), path, value))


@pytest.mark.parametrize("side", ["first", "second"])
def test_so_are_those_of_either_side_of_a_comparison(side: str) -> None:
    assert NO_TIME in refused(changed(compared(), f"compared.0.{side}.end_to_end_ms.p50", 0.0))
    said = refused(changed(compared(), "compared.1.ratios", [1.7e308] * 15))
    assert "compared.ratios is 1.7e+308" in said


def test_facts_that_are_nested_without_end_are_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert refused(facts() | {"notes": deep}) == "notes is nested more than 50 deep."


def test_those_of_every_stage_are_looked_at() -> None:
    for number in (1e301, 10**400):
        with pytest.raises(JobFailed):
            check_as_asked(Stage.COMPILE, {}, {"compile": {"seconds": number}}, INTERFACE)
