"""A calibration's key changes exactly with what decides it, and names no target."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from enginefarm.spec import BuildSpec
from enginefarm.state import Stage
from enginefarm.target import Target
from tasks.recipe import recipe_for
from tests.unit.tasks.test_recipe import MADE, MODEL, SHAPES, TARGET, WRITTEN, key, spec

CALIBRATION, HELD_OUT = "sha256:" + "1" * 64, "sha256:" + "2" * 64
INT8: dict[str, Any] = {"kind": "int8", "calibration": CALIBRATION}


def precise(**fields: object) -> BuildSpec:
    return spec(**{"precision": INT8, "evaluation": HELD_OUT} | fields)


def test_one_calibration_serves_every_target_of_a_model() -> None:
    mine = key(Stage.CALIBRATE, precise())
    for other in ("tensorrt-rtx@sm_86", "onnxruntime@cpu"):
        assert key(Stage.CALIBRATE, precise(), target=Target.parse(other)) == mine
    recipe = recipe_for(Stage.CALIBRATE, precise(), TARGET, "1.32", MODEL, MADE)
    assert "sm_89" not in json.dumps(recipe)
    assert recipe["tool_version"] == "1.32"


@pytest.mark.parametrize(
    "change",
    [
        {"version": "1.33"},
        {"model": MODEL | {"digest": "sha256:" + "0" * 64}},
        {"made": replace(MADE, model={"digest": "sha256:" + "9" * 64, "files": []})},
        {"given": precise(evaluation="sha256:" + "3" * 64)},
        {"given": precise(seed=7)},
        {"given": precise(synthetic={"x": {"value": 0.5}})},
        {"given": precise(profiles=[{"x": SHAPES | {"max": [8, 4]}}])},
        {"given": precise(precision=INT8 | {"calibration": "sha256:" + "3" * 64})},
        {"given": precise(precision=INT8 | {"method": "minmax"})},
        {"given": precise(precision=INT8 | {"method": "entropy"})},
        {"given": precise(precision=INT8 | {"percentile": 99.9})},
        {"given": precise(precision=INT8 | {"per_channel": False})},
        {"given": precise(precision=INT8 | {"op_types": ["Conv"]})},
        {"given": precise(precision=INT8 | {"exclude": ["head*"]})},
        {"given": precise(precision=INT8 | {"samples": 64})},
        {"given": precise(precision=INT8 | {"tool": "modelopt"})},
        {"given": precise(precision=INT8 | {"kind": "fp8"})},
        {"given": precise(precision=INT8 | {"kind": "int4"})},
    ],
    ids=str,
)
def test_everything_that_decides_a_calibration_changes_its_key(change: dict[str, Any]) -> None:
    given = {"given": precise()} | change
    assert key(Stage.CALIBRATE, **given) != key(Stage.CALIBRATE, precise())


@pytest.mark.parametrize(
    "same",
    [
        {"method": "percentile"},
        {"percentile": 99.99},
        {"per_channel": True},
        {"tool": "onnxruntime"},
        {"op_types": ["MatMul", "Gemm", "ConvTranspose", "Conv"]},
    ],
    ids=str,
)
def test_saying_what_is_the_default_is_the_same_calibration(same: dict[str, Any]) -> None:
    asked = precise(precision=INT8 | same)
    assert key(Stage.CALIBRATE, asked) == key(Stage.CALIBRATE, precise())


def test_a_precision_changes_the_keys_of_what_follows_only_through_the_model_it_writes() -> None:
    for stage in (Stage.CHECK, Stage.COMPILE, Stage.BENCHMARK):
        assert key(stage, precise()) == key(stage, spec(evaluation=HELD_OUT))
    written = replace(MADE, model=WRITTEN)
    assert key(Stage.COMPILE, precise(), made=written) != key(Stage.COMPILE, precise())
    told = replace(MADE, precision_key="sha256:" + "f" * 64)
    assert key(Stage.PUBLISH, precise(), made=told) != key(Stage.PUBLISH, precise())


def test_rules_of_another_version_are_another_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(Stage.CALIBRATE, precise())
    monkeypatch.setattr("tasks.recipe.PRECISION_RULES", 99)
    assert key(Stage.CALIBRATE, precise()) != before


INT4: dict[str, Any] = {"kind": "int4"}


def test_blocks_and_methods_of_int4_are_in_its_key_and_the_defaults_are_written_out() -> None:
    mine = key(Stage.CALIBRATE, precise(precision=INT4))
    written = {"method": "rtn", "block_size": 128, "tool": "modelopt", "op_types": ["Gemm"]}
    assert key(Stage.CALIBRATE, precise(precision=INT4 | written)) != mine
    written["op_types"] = ["MatMul", "Gemm"]
    assert key(Stage.CALIBRATE, precise(precision=INT4 | written)) == mine
    for change in ({"block_size": 32}, {"method": "awq-lite"}):
        assert key(Stage.CALIBRATE, precise(precision=INT4 | change)) != mine


def test_modelopts_recipe_says_nothing_that_it_does_not_listen_to() -> None:
    asked = precise(precision=INT8 | {"tool": "modelopt"}).precision.recipe
    assert asked["method"] == "minmax"
    assert asked["op_types"] == []
    assert not {"per_channel", "percentile", "block_size"} & set(asked)
