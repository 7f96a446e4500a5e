"""Only what is near is guessed: one name, several that are as near, or none and what is known."""

from __future__ import annotations

import pytest

from enginefarm.nearest import did_you_mean, near
from enginefarm.preflight.tables.onnx_schemas import OPERATORS
from enginefarm.spec import Metric

BACKENDS = ["onnxruntime", "tensorrt", "tensorrt-llm", "tensorrt-rtx"]


@pytest.mark.parametrize(
    ("word", "choices", "found"),
    [
        ("ONNXRUNTME", BACKENDS, ["onnxruntime"]),
        ("tensort", BACKENDS, ["tensorrt"]),
        ("cosin", Metric, ["cosine"]),
        ("latency_p90_ms", Metric, ["latency_p50_ms", "latency_p99_ms"]),
        ("latency", Metric, ["latency_p50_ms", "latency_p99_ms"]),
        ("Conv2d", OPERATORS, ["Conv"]),
    ],
)
def test_what_is_near_is_named_and_nothing_else(
    word: str, choices: list[str], found: list[str]
) -> None:
    assert near(word, choices) == found


@pytest.mark.parametrize(
    ("word", "choices"),
    [
        ("zzz", BACKENDS),
        ("openvino", BACKENDS),
        ("speed", Metric),
        ("Frobnicate", OPERATORS),
        ("x", ["input_ids", "mask"]),
        ("la", Metric),
    ],
)
def test_what_is_not_near_is_not_guessed_at(word: str, choices: list[str]) -> None:
    assert near(word, choices) == []


def test_what_is_spelt_but_for_its_case_is_the_only_guess() -> None:
    assert near("relu", ["Relu", "PRelu", "Selu", "Elu"]) == ["Relu"]


def test_the_sentence_names_what_is_near_else_what_is_known() -> None:
    assert did_you_mean("tensort", BACKENDS) == "Did you mean 'tensorrt'?"
    assert did_you_mean("latency", Metric) == ("Did you mean 'latency_p50_ms' or 'latency_p99_ms'?")
    assert did_you_mean("zzz", BACKENDS) == (
        "Known: onnxruntime, tensorrt, tensorrt-llm, tensorrt-rtx."
    )


def test_of_very_many_names_only_so_many_are_told() -> None:
    said = did_you_mean("zzz", [f"input_{number:03}" for number in range(100)])

    assert said.startswith("Known: input_000, input_001, ")
    assert said.endswith("input_019 and 80 more.")
