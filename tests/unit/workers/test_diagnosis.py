"""Every known failure is recognised by the words that were really seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from enginefarm.errors import JobFailed
from enginefarm.state import Blame
from enginefarm.target import Target
from workers.diagnosis import TABLE, Runtime, diagnose, failure_of, refuse_node_fault, shorten

TRT, ORT, ONNX = Runtime.TENSORRT, Runtime.ONNXRUNTIME, Runtime.ONNX
RECORDED = Path(__file__).parents[2] / "contract" / "recorded" / "failures.json"

SEEN: list[tuple[Runtime, str, str]] = [
    (TRT, "Error Code 7: BuildCanceled (Build canceled by user )", "cancelled"),
    (
        TRT,
        (
            "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (Network has"
            " dynamic or"
            " shape inputs, but no optimization profile has been defined.)"
        ),
        "profile_required",
    ),
    (
        TRT,
        (
            "Error Code 4: API Usage Error (?: Input dimensions with this name have different"
            " constant"
            " values or have contradictory IOptimizationProfile kMIN/kMAX constraints.)"
        ),
        "profile_dim_conflict",
    ),
    (TRT, "Invalid optimization profiles for input tensors x: MIN<=OPT<=MAX", "invalid_profile"),
    (TRT, "Dimension mismatch for tensor x and profile 0", "invalid_profile"),
    (
        TRT,
        (
            "Error Code 2: Internal Error (Assertion tScope.getType() !="
            " ScopeType::kUNDEFINED failed.)"
        ),
        "control_flow_unsupported",
    ),
    (
        TRT,
        "IConditionalOutputLayer must have inputs of same type. Types are Float and Half",
        "control_flow_unsupported",
    ),
    (TRT, "Unsupported ONNX data type: STRING (8)", "unsupported_data_type"),
    (TRT, "Failed to import initializer: w0", "unsupported_initializer"),
    (
        TRT,
        'creator && "Plugin not found, are the plugin name, version, and namespace correct?"',
        "unsupported_operator",
    ),
    (
        TRT,
        "Non-zero zero point is not supported. Please disable asymmetric quantization.",
        "quantization_asymmetric",
    ),
    (TRT, "Scale coefficients must all be positive", "quantization_scale_invalid"),
    (
        TRT,
        "conv_bias_DequantizeLinear: input has type Int32 but must have type FP8, Int8",
        "quantization_bias",
    ),
    (
        TRT,
        "Quantized constant (c_quantized) is only allowed before DQ or PLUGIN",
        "quantization_constant",
    ),
    (
        TRT,
        (
            "Myelin ([pass.cpp:1500: run_passes] Cannot compile for target(s) sm86, because"
            " the model"
            " contains HW-specific datatypes: fp8_e4m3.)"
        ),
        "precision_not_on_architecture",
    ),
    (
        TRT,
        "ElementWiseOperation SUM must have same input types. But they are of types Half and Float",
        "mixed_types",
    ),
    (TRT, "K exceeds the maximum value allowed (3840)", "topk_too_large"),
    (TRT, "IShuffleLayer Reshape: reshape changes volume. {2,8} to {3,8}", "shape_mismatch"),
    (
        TRT,
        "no tactics to implement the operation within workspace limit",
        "workspace_too_small",
    ),
    (TRT, "Could not find any implementation for node {ForeignNode[a...b]}", "workspace_too_small"),
    (
        TRT,
        "Requested amount of GPU memory (8589934592 bytes) could not be allocated",
        "out_of_memory",
    ),
    (TRT, "Network must have at least one output", "empty_graph"),
    (
        TRT,
        (
            "The engine plan file is not compatible with this version of TensorRT, expecting"
            " library"
            " version 10.0 got 8.6"
        ),
        "engine_incompatible",
    ),
    (
        TRT,
        (
            "The engine plan file is generated on an incompatible device, expecting compute 9.0 got"
            " compute 8.9, please rebuild."
        ),
        "engine_incompatible",
    ),
    (TRT, "CUDA initialization failure with error: 35", "driver_too_old"),
    (TRT, "Failed to parse the ONNX model", "not_a_model"),
    (
        ONNX,
        (
            "Graph must be in single static assignment (SSA) form, however 't' has been used"
            " as output"
            " names multiple times."
        ),
        "invalid_graph",
    ),
    (ONNX, "Unable to parse proto from file: model.onnx.", "not_a_model"),
    (
        ONNX,
        (
            "Data of TensorProto ( tensor name: w) should be stored in weights.bin, but it is not"
            " regular file."
        ),
        "external_data_missing",
    ),
    (
        ORT,
        (
            "ONNX Runtime only *guarantees* support for models stamped with official released onnx"
            " opset versions. Opset 99 is under development and support for this is limited."
            " Current"
            " official support for domain ai.onnx is till opset 25."
        ),
        "unsupported_opset",
    ),
    (
        ORT,
        "Unsupported model IR version: 99, max supported IR version: 12",
        "unsupported_ir_version",
    ),
    (
        ORT,
        "Fatal error: my.domain:MyOp(-1) is not a registered function/op",
        "unsupported_operator",
    ),
    (
        ORT,
        "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for Conv(22)",
        "unsupported_operator",
    ),
    (ORT, "Error: Duplicate definition of name (t).", "invalid_graph"),
    (
        ONNX,
        (
            "Data of TensorProto ( tensor name: w) should be file inside 'm/', but '../outside.bin'"
            " points outside the directory."
        ),
        "external_path_escapes",
    ),
    (
        ORT,
        "INVALID_ARGUMENT : Got invalid dimensions for input: x for the following indices",
        "shape_mismatch",
    ),
    (ORT, "running Conv node. Status Message: Invalid input shape: {192}", "shape_mismatch"),
    (
        ORT,
        "Pad reflect: post-pad (64) exceeds maximum allowed (15) for axis 1. Input shape:{1,16}",
        "shape_mismatch",
    ),
    (ORT, "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : std::bad_alloc", "out_of_memory"),
    (
        ORT,
        (
            "CUDA failure 2: out of memory ; GPU=0 ; hostname=vm ; file=/onnxruntime_src/"
            "onnxruntime/core/providers/cuda/cuda_execution_provider.cc ; line=355 ;"
            " expr=cudaSetDevice(info_.device_id);"
        ),
        "out_of_memory",
    ),
    (
        ORT,
        (
            "Non-zero status code returned while running Conv node. Name:'p2o.Conv.4' Status"
            " Message: CUDNN_FE failure 11: CUDNN_BACKEND_API_FAILED ; GPU=0 ; hostname=vm"
        ),
        "out_of_memory",
    ),
    (ORT, "The model has exceeded maximum protobuf size of 2GB", "model_too_large"),
]


SEEN += [
    (Runtime(row["runtime"]), row["text"], row["code"])
    for row in json.loads(RECORDED.read_text())["failures"]
]


@pytest.mark.parametrize(("runtime", "text", "code"), SEEN)
def test_what_was_seen_is_recognised(runtime: Runtime, text: str, code: str) -> None:
    row = diagnose(text, runtime)
    assert row is not None
    assert row.code == code


def test_every_row_is_reached_by_something_seen() -> None:
    reached = [diagnose(text, runtime) for runtime, text, _ in SEEN]
    assert [row.code for row in TABLE if row not in reached] == []


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.code)
def test_every_row_speaks_in_sentences(row: object) -> None:
    assert row in TABLE
    for text in (getattr(row, "why", ""), getattr(row, "fix", "")):
        assert text[0].isupper()
        assert text.endswith(".")


def test_words_of_one_runtime_do_not_explain_another() -> None:
    assert diagnose("NOT_IMPLEMENTED", Runtime.TENSORRT) is None


def test_the_first_text_that_is_known_decides() -> None:
    failure = failure_of(
        ["strange words", "Scale coefficients must all be positive"],
        Runtime.TENSORRT,
        code="build_refused",
        message="No.",
    )
    assert failure.code == "quantization_scale_invalid"
    assert failure.blame is Blame.PERSON


def test_unknown_words_are_handed_on_as_they_are() -> None:
    failure = failure_of(["strange words"], Runtime.TENSORRT, code="build_refused", message="No.")
    assert failure.code == "build_refused"
    assert "strange words" in failure.why


def test_silence_is_the_nodes_fault() -> None:
    failure = failure_of([], Runtime.TENSORRT, code="build_refused", message="No.")
    assert failure.blame is Blame.NODE


def test_words_that_no_database_keeps_are_left_out() -> None:
    assert shorten("a\0b\n c") == "ab c"


def test_long_texts_keep_both_ends() -> None:
    short = shorten("a" * 1000 + "\n" + "b" * 1000, 300)
    assert len(short) < 320
    assert short.startswith("aaa")
    assert short.endswith("bbb")


def test_what_a_node_lacks_is_told_before_the_model_is_suspected() -> None:
    target = Target.parse("onnxruntime@sm_90")

    with pytest.raises(JobFailed) as refused:
        refuse_node_fault("CUDA failure 2: out of memory ; GPU=0", ORT, target)
    refuse_node_fault("Got invalid dimensions for input: x", ORT, target)
    refuse_node_fault("words that nobody knows", ORT, target)

    assert (refused.value.code, refused.value.blame) == ("out_of_memory", Blame.NODE)
