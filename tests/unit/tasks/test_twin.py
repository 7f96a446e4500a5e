"""The twin of an engine is what would be built otherwise, by the keys that it would have then."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.precision import PrecisionKind
from enginefarm.spec import BuildSpec
from enginefarm.state import Stage
from enginefarm.target import Target
from tasks.memory import likeness
from tasks.plan import plan_target
from tasks.recipe import BESIDE_RULES, VERDICT_RULES, Made, recipe_for
from tasks.twin import spec_of, twin_kind
from tests.unit.tasks.test_plan import GPU, live, spec

INT8: dict[str, Any] = {"kind": "int8", "calibration": "sha256:" + "1" * 64}
CPU = Target.parse("onnxruntime@cpu")
TOOL = live("tool", "1.32", backend="onnxruntime", arch="cpu")
MODEL: dict[str, Any] = {"digest": "sha256:" + "a" * 64, "files": []}


@pytest.mark.parametrize(
    ("asked", "target", "kind"),
    [
        ("int8", "tensorrt-rtx@sm_89", "fp16"),
        ("int8", "onnxruntime@cpu", "as-is"),
        ("fp16", "tensorrt-rtx@sm_89", "as-is"),
        ("bf16", "tensorrt-rtx@sm_89", "as-is"),
        ("fp16", "onnxruntime@cpu", "as-is"),
    ],
)
def test_coarser_than_half_is_held_against_half_where_the_device_computes_in_it(
    asked: str, target: str, kind: str
) -> None:
    assert twin_kind(PrecisionKind(asked), Target.parse(target)) == kind


def steps(asked: BuildSpec, *nodes: Any) -> list[tuple[Stage, PrecisionKind | None]]:  # noqa: ANN401
    plan = plan_target(asked, GPU, list(nodes))
    return [(step.stage, step.twin) for step in plan.steps]


def test_the_twin_is_built_after_the_engine_and_before_both_are_measured() -> None:
    half = PrecisionKind.FP16
    assert steps(spec(precision=INT8), live(), TOOL) == [
        (Stage.REPAIR, None),
        (Stage.CALIBRATE, None),
        (Stage.CHECK, None),
        (Stage.COMPILE, None),
        (Stage.REPAIR, half),
        (Stage.CAST, half),
        (Stage.CHECK, half),
        (Stage.COMPILE, half),
        (Stage.BENCHMARK, None),
        (Stage.PUBLISH, None),
    ]
    bare = spec(precision=INT8, options={"repair": {"mode": "none"}})
    assert (Stage.REPAIR, half) not in steps(bare, live(), TOOL)
    plan = plan_target(spec(precision=INT8), GPU, [live(), TOOL])
    assert plan.version_of(Stage.CAST, half) == plan.version_of(Stage.CALIBRATE) == "1.32"
    assert plan.version_of(Stage.COMPILE, half) == "1.7"


def test_what_cannot_be_measured_or_is_not_asked_for_has_no_twin() -> None:
    for asked, node in (
        (spec(), live()),
        (spec(precision=INT8), live(measures=False)),
        (spec(precision=INT8, until="check"), live()),
    ):
        assert all(twin is None for _, twin in steps(asked, node, TOOL))


def test_a_build_that_waits_for_its_nodes_plans_the_twin_that_they_may_make() -> None:
    asked = spec(precision=INT8, wait_for_node=60)
    assert (Stage.CAST, PrecisionKind.FP16) in steps(asked)


def test_its_recipes_are_those_of_a_build_of_its_own() -> None:
    shapes = {"profiles": [{"x": {"min": [1, 4], "opt": [1, 4], "max": [1, 4]}}], "seed": 3}
    asked = spec(precision=INT8, evaluation="sha256:" + "2" * 64, **shapes)
    for kind, stages in (
        ("fp16", (Stage.REPAIR, Stage.CAST, Stage.CHECK, Stage.COMPILE)),
        ("as-is", (Stage.REPAIR, Stage.CHECK, Stage.COMPILE)),
    ):
        alone = spec(precision={"kind": kind}, evaluation="sha256:" + "2" * 64, **shapes)
        for stage in stages:
            mine = recipe_for(stage, spec_of(asked, kind), GPU, "1.7", MODEL, Made())
            assert mine == recipe_for(stage, alone, GPU, "1.7", MODEL, Made())
            assert likeness(stage, spec_of(asked, kind), GPU, "1.7") == likeness(
                stage, alone, GPU, "1.7"
            )


def test_a_measurement_beside_a_twin_is_another_and_what_is_published_names_its_rules() -> None:
    asked = spec(precision=INT8)
    twin = {"digest": "sha256:" + "3" * 64}
    alone, beside = (
        recipe_for(Stage.BENCHMARK, asked, GPU, "1.7", MODEL, made)
        for made in (Made(), Made(twin=twin))
    )
    assert beside == alone | {"twin": twin, "beside_rules": BESIDE_RULES}
    published = [
        recipe_for(Stage.PUBLISH, row, GPU, "", MODEL, Made())
        for row in (asked, spec(precision=INT8 | {"on_slower": "publish"}), spec())
    ]
    assert published[0]["verdict"] == {
        "rules": VERDICT_RULES,
        "min_cosine": 0.99,
        "on_slower": "quarantine",
    }
    assert published[1]["verdict"]["on_slower"] == "publish"
    assert "verdict" not in published[2]


def test_how_it_is_judged_does_not_change_the_file_or_the_memory() -> None:
    asked, other = (
        spec(precision=INT8 | more) for more in ({}, {"min_cosine": 0.5, "on_slower": "publish"})
    )
    assert asked.precision.recipe == other.precision.recipe
    assert likeness(Stage.COMPILE, asked, GPU, "1") == likeness(Stage.COMPILE, other, GPU, "1")
