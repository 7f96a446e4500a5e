"""A result that the next stage could not use is refused when it comes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginefarm.errors import JobFailed
from enginefarm.manifest import ENGINE_TYPES, LAYERS_TYPE
from enginefarm.state import Blame, Stage
from enginefarm.target import Target
from tasks.results import check_result, engine_of
from tasks.storable import check_storable
from tests.refused import refused_with

TARGET = Target.parse("tensorrt-rtx@sm_89")
ENGINE = {
    "role": "engine",
    "name": "model.plan",
    "digest": "sha256:" + "b" * 64,
    "size": 7,
    "media_type": ENGINE_TYPES["tensorrt-rtx"],
}
LAYERS = ENGINE | {"role": "layers", "name": "layers.json", "media_type": LAYERS_TYPE}
COMPILED: dict[str, Any] = {
    "outputs": [ENGINE],
    "facts": {
        "compile": {"seconds": 1.0, "engine_bytes": 7, "peak_memory_bytes": 1},
        "versions": {"tensorrt-rtx": "1.7"},
    },
    "machine": None,
}


def changed(path: list[Any], value: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    result = copy.deepcopy(COMPILED)
    place = result
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return result


@pytest.mark.parametrize("outputs", [[ENGINE], [ENGINE, LAYERS]])
def test_a_complete_result_passes(outputs: list[Any]) -> None:
    result = changed(["outputs"], outputs)
    assert refused_with(check_result, Stage.COMPILE, TARGET, result) is None


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (["outputs"], [], "0 engines"),
        (["outputs"], [ENGINE, ENGINE | {"name": "other.plan"}], "2 engines"),
        (["outputs"], [ENGINE, ENGINE], "same name"),
        (["outputs"], [ENGINE, LAYERS | {"role": "model"}], "makes no model"),
        (["outputs"], [ENGINE, LAYERS | {"name": "page.html"}], "layers.json"),
        (["outputs"], [ENGINE, LAYERS | {"media_type": "text/html"}], LAYERS_TYPE),
        (["outputs"], [ENGINE, LAYERS, LAYERS | {"name": "b.json"}], "2 files"),
        (["outputs", 0, "name"], "../model.plan", "plain file name"),
        (["outputs", 0, "name"], "Runtime-l4.cache", "like a runtime cache"),
        (["outputs", 0, "media_type"], ENGINE_TYPES["onnxruntime"], "tensorrt-rtx"),
        (["outputs", 0, "size"], 8, "8 bytes"),
        (["facts"], {}, "compile"),
        (["facts", "compile", "seconds"], "long", "seconds"),
        (["facts", "compile", "surprise"], 1, "surprise"),
        (["machine"], {"hostname": "a"}, "cpu"),
    ],
)
def test_a_result_that_the_next_stage_could_not_use_is_the_nodes_failure(
    path: list[Any], value: object, why: str
) -> None:
    with pytest.raises(JobFailed) as refused:
        check_result(Stage.COMPILE, TARGET, changed(path, value))

    assert (refused.value.code, refused.value.blame) == ("result_invalid", Blame.NODE)
    assert why in refused.value.why


def test_a_benchmark_without_a_latency_is_no_benchmark() -> None:
    result: dict[str, Any] = {
        "outputs": [],
        "facts": {"latency": [], "accuracy": None},
        "machine": None,
    }

    with pytest.raises(JobFailed, match="cannot be used"):
        check_result(Stage.BENCHMARK, TARGET, result)


def test_the_engine_is_found_by_its_role() -> None:
    found = engine_of({"outputs": [{"role": "check", "name": "check.json"}, ENGINE]})

    assert found == {name: ENGINE[name] for name in ("name", "digest", "size", "media_type")}
    assert engine_of(None) is None


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), "a\0b", {"a\0": 1}, "\ud800", 1 << 64, -(1 << 64)]
)
def test_what_the_database_cannot_keep_is_told_apart(value: object) -> None:
    with pytest.raises(ValueError, match=r"NUL|compliant|surrogates|64 bits"):
        check_storable({"facts": [value]})


def storable(value: object) -> bool:
    try:
        check_storable(value)
    except ValueError:
        return False
    return True


_KEPT = st.characters(exclude_characters="\0", exclude_categories=["Cs"])


@given(st.dictionaries(st.text(_KEPT), st.integers(-(1 << 63), (1 << 64) - 1)))
def test_all_other_json_is_kept(value: dict[str, int]) -> None:
    assert storable(value)


def test_text_about_a_nul_is_kept() -> None:
    assert storable({"detail": "\\u0000 is how JSON writes it"})
