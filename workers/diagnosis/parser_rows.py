"""What TensorRT's ONNX parser says of single nodes, and its builder of profiles, as data."""

from __future__ import annotations

from workers.diagnosis.row import Row, Runtime

TRT = Runtime.TENSORRT
_OTHER = "Export it in another form, or choose another backend."

ROWS: tuple[Row, ...] = (
    Row(
        r"input_size\(\)\) failed|inputs to IRecurrenceLayer have different shapes",
        "control_flow_unsupported",
        "The compiler cannot build an If within the branch of an If, or a Loop that carries a"
        " tensor which changes its shape.",
        "Make what decides a constant (submit with --fix NAME=VALUE), so that the branch is folded"
        " away; or export the model without it.",
        TRT,
    ),
    Row(
        r"Pre-opset 7 broadcasting is unsupported",
        "unsupported_opset",
        "Before opset 7 an attribute said how to broadcast, and the parser does not read it.",
        "Convert it: onnx.version_converter.convert_version(model, 13). Compare the two where it"
        " was made.",
        TRT,
    ),
    Row(
        r"is missing dimensions in profile",
        "profile_missing_input",
        "A profile lacks a dynamic input.",
        "Give min, opt and max shapes for every dynamic input.",
        TRT,
    ),
    Row(
        r"has static dimensions that don't match",
        "profile_static_mismatch",
        "The profile changes a dimension that the model fixes.",
        "Give the model's number, or export with this dimension dynamic.",
        TRT,
    ),
    Row(
        r"is missing values for shape input tensor",
        "shape_tensor_input",
        "The values of an input decide the shapes of other tensors, and profiles give only shapes.",
        "Make it a constant at export, or submit with --fix NAME=VALUE.",
        TRT,
    ),
    Row(
        r"[Aa]ntialiasing is not supported|only support round_prefer_floor|`stretch` is supported"
        r"|does not support dilations|Unsupported reduction type|Only L1 and L2|training_mode"
        r"|softcap is not supported|Only linear mode is supported",
        "unsupported_attribute",
        "The compiler has the operator, but not with this value of an attribute.",
        _OTHER,
        TRT,
    ),
    Row(
        r"doesn't support m\w+ than \d+ outputs|only supports Attention nodes with one output"
        r"|starts misaligns|decompose_composite_ops",
        "unsupported_operator_use",
        "The compiler has the operator, but not in this form.",
        _OTHER,
        TRT,
    ),
    Row(
        r"must resolve to a build-time constant|axis is not a constant|must be an initializer"
        r"|which is not an initializer",
        "unsupported_operator_input",
        "The compiler must know an input of the operator when it builds.",
        "Make it a constant at export.",
        TRT,
    ),
    Row(
        r"requires inputs with type|Found unsupported input type|input has type UInt8"
        r"|intermediate tensors|only supports? int32, int64",
        "unsupported_operator",
        "The compiler has the operator, but not for this data type.",
        "Cast to float32 around it, or choose another target.",
        TRT,
    ),
    Row(
        r"but is not (consumed|produced) by I\w*Plugin|Unsupported data type for the Cast",
        "unsupported_data_type",
        "Such numbers can only be made and taken by QuantizeLinear and DequantizeLinear.",
        "Use QuantizeLinear or DequantizeLinear in place of the Cast.",
        TRT,
    ),
    Row(
        r"isDimensionalValueConstant",
        "data_dependent_shape",
        "The compiler must know a dimension when it builds, and the model computes it.",
        "Export with that dimension fixed.",
        TRT,
    ),
    Row(
        r"^\s*false\s*$",
        "unsupported_operator",
        "The compiler has no code for an operator; it does not say which.",
        "Check the model first: the check names every operator that the compiler lacks.",
        TRT,
    ),
)
