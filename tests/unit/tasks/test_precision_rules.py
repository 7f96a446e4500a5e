"""A precision that cannot be had is refused before a node is asked."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.errors import InvalidRequest
from enginefarm.spec import BuildSpec
from tasks.precision_rules import check_precision
from tests.refused import refused_with

DATA, OTHER = "sha256:" + "1" * 64, "sha256:" + "2" * 64
INT8 = {"kind": "int8", "calibration": DATA}
FP8 = {"kind": "fp8", "calibration": DATA}
MODELOPT = {"tool": "modelopt"}


def spec(precision: dict[str, Any], *targets: str, **fields: object) -> BuildSpec:
    body = {"model": "sha256:" + "a" * 64, "targets": list(targets) or ["tensorrt-rtx@sm_89"]}
    return BuildSpec.model_validate(body | {"precision": precision} | fields)


@pytest.mark.parametrize(
    ("precision", "targets"),
    [
        ({}, ["onnxruntime@cpu"]),
        ({"kind": "fp16", "exclude": ["head*"]}, ["onnxruntime@cpu", "tensorrt-rtx@sm_75"]),
        ({"kind": "fp16", "calibration": DATA}, ["tensorrt-rtx@sm_89"]),
        ({"kind": "bf16"}, ["tensorrt-rtx@sm_86"]),
        (INT8 | {"method": "percentile", "percentile": 99.9}, ["tensorrt-rtx@sm_86"]),
        (INT8 | {"percentile": 99.9}, ["onnxruntime@cpu", "tensorrt-rtx@sm_75"]),
        (
            INT8 | MODELOPT | {"method": "entropy", "sensitivity": 4},
            ["onnxruntime@cpu", "tensorrt-rtx@sm_86"],
        ),
        (MODELOPT | {"kind": "bf16", "op_types": ["Conv"]}, ["tensorrt-rtx@sm_89"]),
        (FP8, ["tensorrt-rtx@sm_89", "tensorrt-rtx@sm_120"]),
        (FP8 | {"method": "entropy", "op_types": ["MatMul"]}, ["tensorrt-rtx@sm_89"]),
        ({"kind": "int4"}, ["onnxruntime@cpu", "tensorrt-rtx@sm_86"]),
        ({"kind": "int4", "block_size": 32, "method": "rtn"}, ["tensorrt-rtx@sm_89"]),
        ({"kind": "int4", "method": "awq-clip", "calibration": DATA}, ["tensorrt-rtx@sm_89"]),
    ],
)
def test_what_can_be_had_is_let_through(precision: dict[str, Any], targets: list[str]) -> None:
    wanted = spec(precision, *targets, evaluation=OTHER)
    assert refused_with(check_precision, wanted) is None


@pytest.mark.parametrize(
    ("precision", "target", "code"),
    [
        ({"kind": "int8"}, "onnxruntime@cpu", "calibration_missing"),
        (INT8 | {"tool": "enginefarm"}, "onnxruntime@cpu", "precision_tool"),
        ({"kind": "fp16", "method": "minmax"}, "onnxruntime@cpu", "precision_option_unused"),
        ({"kind": "fp16", "per_channel": False}, "onnxruntime@cpu", "precision_option_unused"),
        ({"kind": "fp16", "sensitivity": True}, "onnxruntime@cpu", "precision_option_unused"),
        ({"exclude": ["a"]}, "onnxruntime@cpu", "precision_option_unused"),
        ({"calibration": DATA}, "onnxruntime@cpu", "precision_option_unused"),
        (
            INT8 | {"method": "minmax", "percentile": 99},
            "onnxruntime@cpu",
            "precision_option_unused",
        ),
        ({"kind": "bf16"}, "tensorrt-rtx@sm_75", "precision_not_on_architecture"),
        ({"kind": "bf16"}, "onnxruntime@cpu", "precision_not_on_architecture"),
        (MODELOPT | {"kind": "int8"}, "onnxruntime@cpu", "calibration_missing"),
        ({"kind": "fp8"}, "tensorrt-rtx@sm_89", "calibration_missing"),
        ({"kind": "int4", "method": "awq-lite"}, "tensorrt-rtx@sm_89", "calibration_missing"),
        (FP8, "tensorrt-rtx@sm_86", "precision_not_on_architecture"),
        (FP8, "tensorrt-rtx@sm_75", "precision_not_on_architecture"),
        (FP8, "tensorrt-rtx@sm_86+sm_89", "precision_not_on_architecture"),
        (FP8, "onnxruntime@cpu", "precision_not_on_architecture"),
        ({"kind": "int4"}, "tensorrt-rtx@sm_75", "precision_not_on_architecture"),
        (FP8 | {"tool": "onnxruntime"}, "tensorrt-rtx@sm_89", "precision_tool"),
        ({"kind": "int4", "tool": "enginefarm"}, "tensorrt-rtx@sm_89", "precision_tool"),
        (INT8 | MODELOPT | {"method": "percentile"}, "onnxruntime@cpu", "precision_method"),
        (INT8 | {"method": "rtn"}, "onnxruntime@cpu", "precision_method"),
        ({"kind": "int4", "method": "minmax"}, "tensorrt-rtx@sm_89", "precision_method"),
        (FP8 | {"op_types": ["MaxPool"]}, "tensorrt-rtx@sm_89", "precision_operator"),
        ({"kind": "int4", "op_types": ["Conv"]}, "onnxruntime@cpu", "precision_operator"),
        (INT8 | MODELOPT | {"per_channel": True}, "onnxruntime@cpu", "precision_option_unused"),
        (INT8 | MODELOPT | {"percentile": 99.9}, "onnxruntime@cpu", "precision_option_unused"),
        (INT8 | {"block_size": 32}, "onnxruntime@cpu", "precision_option_unused"),
        (FP8 | {"sensitivity": True}, "tensorrt-rtx@sm_89", "precision_option_unused"),
        ({"kind": "fp16", "block_size": 32}, "onnxruntime@cpu", "precision_option_unused"),
    ],
)
def test_what_cannot_be_had_is_refused_by_a_code(
    precision: dict[str, Any], target: str, code: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_precision(spec(precision, target))
    assert refused.value.code == code
    assert refused.value.fix


def test_data_that_was_calibrated_with_judges_nothing() -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_precision(spec(INT8, evaluation=DATA))
    assert refused.value.code == "calibration_is_evaluation"


def test_one_target_without_it_refuses_the_build_and_is_named() -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_precision(spec({"kind": "bf16"}, "tensorrt-rtx@sm_89", "tensorrt-rtx@sm_75"))
    assert refused.value.context["target"] == "tensorrt-rtx@sm_75"


@pytest.mark.parametrize("wrong", ["int2", "INT8", "", None])
def test_a_kind_that_there_is_not_is_refused_by_the_words(wrong: object) -> None:
    with pytest.raises(ValueError, match="precision"):
        spec({"kind": wrong})
