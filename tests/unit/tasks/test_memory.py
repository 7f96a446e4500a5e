"""What was measured on one build says of another what it can, and no more."""

from __future__ import annotations

import pytest

from enginefarm.spec import BuildSpec
from enginefarm.state import Stage
from enginefarm.target import Target
from tasks.memory import Known, Measured, Sizes, known_of, likeness, room_of, within
from tasks.messages import NodeDescription

GPU = Target.parse("tensorrt-rtx@sm_89")
RANGE = {"min": [1, 4], "opt": [2, 4], "max": [8, 4]}


def spec(**fields: object) -> BuildSpec:
    return BuildSpec.model_validate({"model": "sha256:" + "a" * 64, "targets": [str(GPU)]} | fields)


def sizes(*batches: int) -> Sizes:
    return [{"x": [batch, 4]} for batch in batches]


def measured(peak: int, *batches: int, enough: bool = True) -> Measured:
    return Measured(peak, sizes(*batches), enough, f"bld_{peak}")


def like(
    stage: Stage = Stage.COMPILE, version: str = "1.7", fields: dict[str, object] | None = None
) -> str:
    return likeness(stage, spec(**(fields or {})), GPU, version)


@pytest.mark.parametrize(
    "fields",
    [
        {"profiles": [{"x": RANGE}]},
        {"gates": [{"metric": "cosine", "at_least": 0.9}]},
        {"priority": 0, "labels": {"a": "b"}, "seed": 7, "wait_for_node": 60},
        {"evaluation": "sha256:" + "b" * 64},
        {"options": {"benchmark": {"warmup_ms": 1}}},
        {"targets": [str(GPU), "onnxruntime@cpu"]},
    ],
)
def test_what_leaves_the_memory_of_a_compile_alone_leaves_builds_alike(
    fields: dict[str, object],
) -> None:
    assert like(fields=fields) == like()


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "sha256:" + "c" * 64},
        {"options": {"compile": {"optimization_level": 5}}},
        {"options": {"repair": {"mode": "none"}}},
        {"options": {"repair": {"keep_outputs": ["y"]}}},
    ],
)
def test_what_may_change_the_memory_of_a_compile_makes_builds_unlike(
    fields: dict[str, object],
) -> None:
    assert like(fields=fields) != like()


def test_stages_versions_and_what_is_measured_on_make_builds_unlike() -> None:
    assert like(Stage.BENCHMARK) != like()
    assert like(version="1.8") != like()
    evaluated: dict[str, object] = {"evaluation": "sha256:" + "b" * 64}
    assert like(Stage.BENCHMARK, fields=evaluated) != like(Stage.BENCHMARK)


def test_sizes_lie_within_others_only_if_no_dimension_is_larger() -> None:
    assert within(sizes(4), sizes(8))
    assert within(sizes(8), sizes(8))
    assert within(sizes(), sizes())
    assert within(sizes(2, 4), sizes(4, 8))
    assert not within(sizes(8), sizes(4))
    assert not within(sizes(4, 4), sizes(8))
    assert not within([{"x": [32, 128]}], [{"x": [1, 4096]}])
    assert not within([{"x": [4, 4]}], [{"z": [8, 4]}])
    assert not within([{"x": [4]}], [{"x": [4, 4]}])


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], None),
        ([measured(100, 8)], Known(100, True, "bld_100")),
        ([measured(100, 4)], Known(100, False, "bld_100")),
        ([measured(900, 16)], None),
        ([measured(100, 4), measured(90, 8)], Known(100, False, "bld_100")),
        ([measured(100, 4), measured(200, 8), measured(900, 16)], Known(200, True, "bld_200")),
        ([measured(100, 8, enough=False)], Known(100, False, "bld_100")),
    ],
)
def test_smaller_sizes_say_the_least_the_same_what_suffices_and_larger_nothing(
    rows: list[Measured], expected: Known | None
) -> None:
    assert known_of(rows, sizes(8)) == expected


@pytest.mark.parametrize(("limit", "room"), [(None, 4096), (1024, 1024), (9999, 4096)])
def test_a_node_gives_a_job_its_limit_and_never_more_than_it_has(
    limit: int | None, room: int
) -> None:
    node = NodeDescription(
        hostname="a",
        cpu="EPYC",
        cores=8,
        memory_bytes=4096,
        devices=[],
        backends=[],
        stages=[],
        job_memory_bytes=limit,
        farm_version="0",
    )
    assert room_of(node) == room
