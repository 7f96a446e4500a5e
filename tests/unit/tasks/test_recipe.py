"""A key changes exactly with what decides the output."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginefarm import repairs
from enginefarm.spec import BuildSpec
from enginefarm.state import Stage
from enginefarm.target import Target
from tasks.recipe import Made, key_of, recipe_for

MODEL_DIGEST = "sha256:" + "a" * 64
TARGET = Target.parse("tensorrt-rtx@sm_89")
MODEL = {
    "digest": MODEL_DIGEST,
    "files": [{"name": "model.onnx", "digest": "sha256:" + "b" * 64, "size": 7}],
}
ENGINE = {
    "name": "model.plan",
    "digest": "sha256:" + "c" * 64,
    "size": 9,
    "media_type": "application/x",
}
MADE = Made(engine=ENGINE, compile_key="sha256:" + "d" * 64, benchmark_key="sha256:" + "e" * 64)
SHAPES = {"min": [1, 4], "opt": [2, 4], "max": [4, 4]}
VERSION = "1.7.1.116"


def spec(**fields: object) -> BuildSpec:
    body = {"model": MODEL_DIGEST, "targets": [str(TARGET)], "profiles": [{"x": SHAPES}]}
    return BuildSpec.model_validate(body | fields)


def key(
    stage: Stage,
    given: BuildSpec | None = None,
    *,
    target: Target = TARGET,
    version: str = VERSION,
    model: dict[str, Any] | None = None,
    made: Made = MADE,
) -> str:
    return key_of(recipe_for(stage, given or spec(), target, version, model or MODEL, made))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), json_values, max_size=6), st.randoms(use_true_random=False))
def test_the_order_in_which_a_recipe_is_written_does_not_change_its_key(
    recipe: dict[str, Any], chance: Random
) -> None:
    def shuffled(value: object) -> object:
        if isinstance(value, dict):
            names = list(value)
            chance.shuffle(names)
            return {name: shuffled(value[name]) for name in names}
        return [shuffled(row) for row in value] if isinstance(value, list) else value

    assert key_of({"recipe": shuffled(recipe)}) == key_of({"recipe": recipe})


@given(
    labels=st.dictionaries(
        st.from_regex(r"\A[a-z0-9]{1,8}\Z"),
        st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=8),
        max_size=4,
    ),
    priority=st.integers(0, 9),
    wait=st.integers(0, 3600),
    pending=st.integers(1, 3600),
)
@pytest.mark.parametrize("stage", list(Stage))
def test_what_does_not_decide_the_output_does_not_change_the_key(
    stage: Stage, labels: dict[str, str], priority: int, wait: int, pending: int
) -> None:
    other = spec(
        labels=labels,
        priority=priority,
        wait_for_node=wait,
        limits={"pending_s": pending},
        targets=[str(TARGET), "onnxruntime@cpu"],
    )
    assert key(stage, other) == key(stage)


@pytest.mark.parametrize("stage", [Stage.CHECK, Stage.COMPILE, Stage.BENCHMARK])
@pytest.mark.parametrize(
    "change",
    [
        {"target": Target.parse("tensorrt-rtx@sm_86")},
        {"version": "1.7.1.117"},
        {"model": MODEL | {"digest": "sha256:" + "0" * 64}},
        {"model": MODEL | {"files": []}},
        {"given": spec(profiles=[{"x": SHAPES | {"max": [8, 4]}}])},
        {"given": spec(profiles=[{"x": SHAPES}, {"x": SHAPES}])},
    ],
    ids=["target", "version", "model", "model file", "a shape", "a profile"],
)
def test_everything_that_decides_the_output_changes_the_key(
    stage: Stage, change: dict[str, Any]
) -> None:
    assert key(stage, **change) != key(stage)


@pytest.mark.parametrize(
    "options", [{"optimization_level": 0}, {"optimization_level": 5}, {"workspace_mib": 64}]
)
def test_a_compile_option_changes_the_compile_key_and_not_the_benchmark_key(
    options: dict[str, int],
) -> None:
    other = spec(options={"compile": options})
    assert key(Stage.COMPILE, other) != key(Stage.COMPILE)
    assert key(Stage.BENCHMARK, other) == key(Stage.BENCHMARK)


def test_an_option_that_a_backend_does_not_hear_is_not_in_its_key() -> None:
    other = spec(options={"compile": {"graph_optimization": "none"}})
    cpu = Target.parse("onnxruntime@cpu")
    assert key(Stage.COMPILE, other) == key(Stage.COMPILE)
    assert key(Stage.COMPILE, other, target=cpu) != key(Stage.COMPILE, target=cpu)


METRIC = {"name": "ctc_error_rate", "output": "y", "labels": "text"}
BENCHMARK_CHANGES: list[dict[str, object]] = [
    {"evaluation": "sha256:" + "f" * 64},
    {"evaluation_metric": METRIC},
    {"seed": 1},
    {"synthetic": {"x": {"value": 0.5}}},
    {"options": {"benchmark": {"warmup_ms": 1}}},
    {"options": {"benchmark": {"min_iterations": 11}}},
    {"options": {"benchmark": {"min_duration_ms": 1}}},
    {"options": {"benchmark": {"max_duration_ms": 20_000}}},
    {"options": {"benchmark": {"stable_within": 0.5}}},
    {"options": {"benchmark": {"threads": 2}}},
]


@pytest.mark.parametrize("fields", BENCHMARK_CHANGES, ids=json.dumps)
def test_how_it_is_measured_changes_the_benchmark_key_and_not_the_compile_key(
    fields: dict[str, object],
) -> None:
    assert key(Stage.BENCHMARK, spec(**fields)) != key(Stage.BENCHMARK)
    assert key(Stage.COMPILE, spec(**fields)) == key(Stage.COMPILE)


@pytest.mark.parametrize("stage", [Stage.BENCHMARK, Stage.PUBLISH])
def test_another_engine_is_measured_and_published_for_itself(stage: Stage) -> None:
    other = Made(
        engine=ENGINE | {"digest": "sha256:" + "0" * 64},
        compile_key=MADE.compile_key,
        benchmark_key=MADE.benchmark_key,
    )
    assert key(stage, made=other) != key(stage)


@pytest.mark.parametrize(
    "made",
    [
        Made(engine=ENGINE, compile_key="sha256:" + "0" * 64, benchmark_key=MADE.benchmark_key),
        Made(engine=ENGINE, compile_key=MADE.compile_key, benchmark_key="sha256:" + "0" * 64),
        Made(engine=ENGINE, compile_key=MADE.compile_key),
    ],
    ids=["other recipe", "other measurement", "not measured"],
)
def test_what_was_done_before_changes_the_publish_key(made: Made) -> None:
    assert key(Stage.PUBLISH, made=made) != key(Stage.PUBLISH)


def test_a_gate_changes_the_publish_key_only_and_only_on_its_own_target() -> None:
    gate = {"metric": "cosine", "at_least": 0.9}
    gated = spec(gates=[gate])
    assert key(Stage.PUBLISH, gated) != key(Stage.PUBLISH)
    assert key(Stage.PUBLISH, gated) != key(Stage.PUBLISH, spec(gates=[gate | {"at_least": 0.95}]))
    assert key(Stage.BENCHMARK, gated) == key(Stage.BENCHMARK)
    elsewhere = spec(gates=[gate | {"target": "onnxruntime@cpu"}])
    assert key(Stage.PUBLISH, elsewhere) == key(Stage.PUBLISH)


def test_each_stage_has_a_key_of_its_own() -> None:
    assert len({key(stage) for stage in Stage}) == len(Stage)


FIX = {"options": {"repair": {"fix_inputs": {"sr": {"value": 16000}}}}}
WRITTEN = {"digest": "sha256:" + "9" * 64, "files": [{"name": "model.onnx"}]}


def test_a_repair_is_the_same_for_every_architecture_of_a_backend_and_for_no_other() -> None:
    same = key(Stage.REPAIR, target=Target.parse("tensorrt-rtx@sm_86"))
    assert same == key(Stage.REPAIR)
    assert key(Stage.REPAIR, target=Target.parse("onnxruntime@cpu")) != same
    recipe = recipe_for(Stage.REPAIR, spec(), TARGET, VERSION, MODEL, MADE)
    assert "sm_89" not in json.dumps(recipe)


@pytest.mark.parametrize(
    "change",
    [
        {"version": "1.7.1.117"},
        {"model": MODEL | {"digest": "sha256:" + "0" * 64}},
        {"given": spec(profiles=[{"x": SHAPES | {"max": [8, 4]}}])},
        {"given": spec(**FIX)},
        {"given": spec(options={"repair": {"allow": ["restore-float"]}})},
        {"given": spec(options={"repair": {"prune_unused": True}})},
        {"given": spec(synthetic={"x": {"value": 0.5}})},
    ],
    ids=[
        "version",
        "model",
        "a shape",
        "a fix",
        "what is allowed",
        "prune",
        "what it is proven on",
    ],
)
def test_everything_that_decides_a_repair_changes_its_key(change: dict[str, Any]) -> None:
    assert key(Stage.REPAIR, **change) != key(Stage.REPAIR)


def test_a_pass_of_another_version_is_another_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(Stage.REPAIR)
    changed = [replace(row, version=row.version + 1) for row in repairs.REPAIRS[:1]]
    monkeypatch.setattr(repairs, "REPAIRS", (*changed, *repairs.REPAIRS[1:]))
    assert key(Stage.REPAIR) != before


def test_before_another_precision_every_backend_gets_what_the_tools_need() -> None:
    cpu = Target.parse("onnxruntime@cpu")
    allowed = {"options": {"repair": {"allow": ["restore-float"]}}}
    int8 = {"precision": {"kind": "int8", "calibration": "sha256:" + "f" * 64}}

    def passes(**fields: object) -> set[str]:
        recipe = recipe_for(Stage.REPAIR, spec(**fields), cpu, VERSION, MODEL, Made())
        return {row["name"] for row in recipe["passes"]}

    needed = {"pin-dimensions", "fold-constants"}
    assert not passes(**allowed) & (needed | {"restore-float"})
    assert passes(**int8) - passes() == needed
    assert passes(**int8, **allowed) - passes() == needed | {"restore-float"}


@pytest.mark.parametrize("stage", [Stage.CHECK, Stage.COMPILE])
def test_a_model_that_a_stage_has_written_is_what_the_next_one_works_on(stage: Stage) -> None:
    made = replace(MADE, model=WRITTEN, inputs=("x",))
    recipe = recipe_for(stage, spec(), TARGET, VERSION, MODEL, made)
    assert recipe["model"] == WRITTEN
    assert list(recipe["profiles"][0]) == ["x"]
    gone = replace(MADE, model=WRITTEN, inputs=("z",))
    assert recipe_for(stage, spec(), TARGET, VERSION, MODEL, gone)["profiles"] == [{}]


def test_the_benchmark_is_against_the_original_and_names_what_it_is_fed_with() -> None:
    made = replace(MADE, model=WRITTEN, inputs=())
    recipe = recipe_for(Stage.BENCHMARK, spec(**FIX), TARGET, VERSION, MODEL, made)
    assert recipe["model"] == MODEL
    assert recipe["fixed"] == {"sr": {"value": 16000, "shape": None}}
    assert list(recipe["profiles"][0]) == ["x"]
    assert "fixed" not in recipe_for(Stage.BENCHMARK, spec(), TARGET, VERSION, MODEL, made)


def test_without_a_written_model_the_other_keys_are_what_they_were_before_there_were_repairs() -> (
    None
):
    for stage in (Stage.CHECK, Stage.COMPILE, Stage.BENCHMARK):
        assert key(stage, made=replace(MADE, repair_key="sha256:" + "1" * 64)) == key(stage)
        assert "repair" not in json.dumps(recipe_for(stage, spec(), TARGET, VERSION, MODEL, MADE))


def test_a_check_by_other_rules_is_another_check(monkeypatch: pytest.MonkeyPatch) -> None:
    before, built = key(Stage.CHECK), key(Stage.COMPILE)
    monkeypatch.setattr("tasks.recipe.CHECK_RULES", 1000)
    assert key(Stage.CHECK) != before
    assert key(Stage.COMPILE) == built
