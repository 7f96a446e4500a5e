"""What ONNX's checker and ONNX Runtime say, as data; and what every reader of ONNX files says."""

from __future__ import annotations

from enginefarm.state import Blame
from workers.diagnosis.row import Row, Runtime

ORT = Runtime.ONNXRUNTIME
SHAPE_FIX = (
    "Give a profile of sizes that the model takes (networks that halve an image take multiples of"
    " 32, say). If a size was baked in at export, export again with dynamic shapes, or give a"
    " profile of exactly that shape."
)

ROWS: tuple[Row, ...] = (
    Row(
        r"Output name is not unique|Failed to sort the model topologically|single static assign",
        "invalid_graph",
        "The graph breaks the rules of ONNX.",
        "Export it again; onnx.checker names the tensor.",
    ),
    Row(
        r"Failed to parse the ONNX model|Unable to parse proto|Protobuf parsing failed"
        r"|MODEL_DESERIALIZE_FAILED|INVALID_PROTOBUF",
        "not_a_model",
        "The file is not a complete ONNX model.",
        "Export it again and compare its digest after the copy.",
    ),
    Row(
        r"under development and support for this is limited|Current official support for domain"
        r"|Opset \d+ is .*not supported|No opset import for domain",
        "unsupported_opset",
        "The model uses a version of the operator set that this runtime does not know.",
        "Export with an older opset.",
    ),
    Row(
        r"Unsupported model IR version",
        "unsupported_ir_version",
        "The model's IR version is newer than this runtime.",
        "Save the model with an older IR version.",
        ORT,
    ),
    Row(
        r"is not a registered function/op|No Op registered for|Fatal error: [\w.]*:?\w+\(-?\d+\)"
        r"|ONNX Schema \w+: failed validating|Unrecognized (domain|operator)",
        "unsupported_operator",
        "The runtime has no operator of that name and version.",
        "Export without it, or rewrite it with standard operators.",
        ORT,
    ),
    Row(
        r"NOT_IMPLEMENTED|Could not find an implementation for",
        "unsupported_operator",
        "The runtime knows the operator but has no kernel for these data types on this device.",
        "Cast to a type that it has (float32, say), or choose another target.",
        ORT,
    ),
    Row(
        r"points outside the directory|is an absolute path|escapes",
        "external_path_escapes",
        "A weight names an external data file outside the model's own folder.",
        "Keep external data beside the model and name it by its plain file name.",
    ),
    Row(
        r"External data path|external data|External data file|should be stored in",
        "external_data_missing",
        "A weight is kept in an external data file that is missing or lies elsewhere.",
        "Upload every external data file together with the model.",
    ),
    Row(
        r"bound to different types|Type Error: Type",
        "mixed_types",
        "An operator mixes data types, or is given one that it does not take.",
        "Insert a Cast at export.",
        ORT,
    ),
    Row(
        r"Batchwise recurrent operations",
        "unsupported_attribute",
        "The runtime has recurrent operators only with layout 0.",
        "Export with layout 0: time first, then the batch.",
        ORT,
    ),
    Row(
        r"fmod attribute must be true",
        "unsupported_attribute",
        "Mod of floats must have fmod 1 before opset 28.",
        "Export it as fmod, or as a subtraction of Floor.",
        ORT,
    ),
    Row(
        r"Got invalid dimensions for input|Invalid rank for input|reshape_helper|ReshapeHelper"
        r"|cannot be reshaped|Attempting to broadcast|incompatible dimensions|dimension mismatch"
        r"|ShapeInferenceError|Incompatible dimensions|Invalid input shape|Invalid tensor shape"
        r"|post-pad \(\d+\) exceeds maximum|pre-pad \(\d+\) exceeds maximum"
        r"|would produce a negative output dimension|kernel.{0,40}larger than.{0,20}input",
        "shape_mismatch",
        "The model does not take the sizes it was given: they are too small, not a multiple of what"
        " it needs, or others than were baked in at export.",
        SHAPE_FIX,
        ORT,
    ),
    Row(
        r"Duplicate definition|not in topological order|Invalid model|INVALID_GRAPH"
        r"|This is an invalid model",
        "invalid_graph",
        "The graph breaks the rules of ONNX.",
        "Export it again; onnx.checker names the node.",
        ORT,
    ),
    Row(
        # ONNX Runtime's arenas say the same of the host's memory and of a GPU's.
        r"bad_alloc|Failed to allocate memory|failed to allocate",
        "out_of_memory",
        "Memory ran out: the GPU's, where the job ran on one, else the host's.",
        "See what else runs there, reduce the profile's max, or use a larger node.",
        ORT,
        Blame.NODE,
    ),
    Row(
        r"larger than 2 ?GB|exceeds maximum protobuf size|exceeded maximum protobuf size",
        "model_too_large",
        "The model does not fit into one file of ONNX.",
        "Keep the weights in external data, or choose another backend.",
    ),
)
