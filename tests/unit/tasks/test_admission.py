"""What cannot be right is refused at submit, with the right word."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.errors import InvalidRequest
from enginefarm.spec import BuildSpec, Metric
from tasks import admission
from tasks.admission import check_spec
from tests.refused import refused_with

DIGEST = "sha256:" + "a" * 64
METRIC = {"name": "accuracy", "output": "scores", "labels": "label"}
INPUTS, OUTPUTS = ["image"], ["scores", "boxes"]


def spec(**fields: object) -> BuildSpec:
    return BuildSpec.model_validate({"model": DIGEST, "targets": ["onnxruntime@cpu"]} | fields)


def test_a_sensible_build_is_admitted() -> None:
    assert (
        refused_with(
            check_spec,
            spec(
                options={"compile": {"graph_optimization": "basic"}},
                synthetic={"image": {"value": 1}},
                gates=[
                    {"metric": "cosine", "at_least": 0.9, "at_most": 1, "output": "boxes"},
                    {"metric": "engine_bytes", "at_most": 1e6, "target": "onnxruntime@cpu"},
                ],
            ),
            INPUTS,
            OUTPUTS,
        )
        is None
    )


@pytest.mark.parametrize(
    "gate",
    [
        {"metric": "cosine", "at_least": 1},
        {"metric": "cosine", "at_least": -1},
        {"metric": "top1_agreement", "at_least": 1.0},
        {"metric": "max_abs_error", "at_most": 0},
        {"metric": "snr_db", "at_least": -3},
        {"metric": "latency_p50_ms", "at_most": 0.001},
    ],
)
def test_a_bound_that_is_hard_but_possible_is_admitted(gate: dict[str, Any]) -> None:
    assert refused_with(check_spec, spec(gates=[gate]), INPUTS, OUTPUTS) is None


def test_every_metric_has_a_range() -> None:
    assert set(admission._RANGES) == {metric.plain for metric in Metric}


@pytest.mark.parametrize(
    ("fields", "code", "names"),
    [
        (
            {"gates": [{"metric": "model.cosine", "at_least": 0.9}]},
            "gate_without_precision",
            "cosine",
        ),
        ({"options": {"compile": {"workspace_mib": 64}}}, "option_unused", "tensorrt-rtx"),
        (
            {"options": {"benchmark": {"min_duration_ms": 20_000}}},
            "benchmark_window",
            "max_duration_ms",
        ),
        ({"options": {"benchmark": {"batches": [1]}}}, "batch_outside_profile", "no profile"),
        (
            {
                "options": {"benchmark": {"batches": [4, 5]}},
                "profiles": [{"image": {"min": [1, 8], "opt": [2, 8], "max": [4, 8]}}],
            },
            "batch_outside_profile",
            "allows image 1 to 4",
        ),
        (
            {
                "options": {"benchmark": {"shapes": [{"image": [3, 8]}, {"image": [5, 8]}]}},
                "profiles": [{"image": {"min": [1, 8], "opt": [2, 8], "max": [4, 8]}}],
            },
            "shapes_outside_profile",
            "image 5x8",
        ),
        (
            {
                "options": {"benchmark": {"shapes": [{"imgae": [2, 8]}]}},
                "profiles": [{"image": {"min": [1, 8], "opt": [2, 8], "max": [4, 8]}}],
            },
            "shapes_outside_profile",
            "imgae 2x8",
        ),
        ({"synthetic": {"imgae": {"value": 1}}}, "unknown_input", "'image'"),
        (
            {"synthetic": {"image": {"value": 1}}, "evaluation": DIGEST},
            "synthetic_unused",
            "evaluation",
        ),
        ({"gates": [{"metric": "cosine", "at_least": 2, "at_most": 1}]}, "gate_bounds", "cosine"),
        ({"gates": [{"metric": "cosine", "at_least": 1.5}]}, "gate_bounds", "at most 1"),
        ({"gates": [{"metric": "cosine", "at_most": 0.9}]}, "gate_direction", "at_least"),
        ({"gates": [{"metric": "latency_p99_ms", "at_least": 5}]}, "gate_direction", "at_most"),
        ({"gates": [{"metric": "cosine", "at_most": -1.1}]}, "gate_bounds", "at least -1"),
        ({"gates": [{"metric": "top1_agreement", "at_least": 99}]}, "gate_bounds", "at most 1"),
        ({"gates": [{"metric": "max_abs_error", "at_most": -1}]}, "gate_bounds", "at least 0"),
        ({"gates": [{"metric": "latency_p50_ms", "at_most": 0}]}, "gate_bounds", "above 0"),
        ({"gates": [{"metric": "latency_p99_ms", "at_most": -5}]}, "gate_bounds", "above 0"),
        ({"gates": [{"metric": "engine_bytes", "at_most": 0}]}, "gate_bounds", "above 0"),
        (
            {"gates": [{"metric": "cosine", "against": DIGEST, "worse_by_percent": 1}]},
            "gate_against",
            "worse_by",
        ),
        ({"gates": [{"metric": "metric_loss", "at_most": 0}]}, "gate_without_metric", "--metric"),
        ({"evaluation_metric": METRIC}, "metric_without_dataset", "evaluation dataset"),
        (
            {"evaluation_metric": METRIC | {"output": "score"}, "evaluation": DIGEST},
            "unknown_output",
            "'scores'",
        ),
        (
            {"gates": [{"metric": "latency_p99_ms", "at_most": 5, "output": "boxes"}]},
            "gate_without_output",
            "'boxes'",
        ),
        (
            {"gates": [{"metric": "cosine", "at_least": 0.9, "output": "box"}]},
            "unknown_output",
            "'boxes'",
        ),
        (
            {"gates": [{"metric": "cosine", "at_least": 0.9, "target": "onnxruntime@sm_89"}]},
            "gate_target_unknown",
            "onnxruntime@cpu",
        ),
    ],
)
def test_what_cannot_be_right_is_refused_and_the_right_word_named(
    fields: dict[str, Any], code: str, names: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_spec(spec(**fields), INPUTS, OUTPUTS)

    assert refused.value.code == code
    assert names in str(refused.value)


def test_an_option_is_admitted_if_one_target_takes_it() -> None:
    assert (
        refused_with(
            check_spec,
            spec(
                targets=["onnxruntime@cpu", "tensorrt-rtx@sm_89"],
                options={"compile": {"workspace_mib": 64, "graph_optimization": "all"}},
            ),
            INPUTS,
            OUTPUTS,
        )
        is None
    )
