"""What TensorRT and TensorRT-RTX say, as data."""

from __future__ import annotations

from enginefarm.state import Blame
from workers.diagnosis.row import Row, Runtime

TRT = Runtime.TENSORRT
PROFILE_FIX = "Give min, opt and max with min <= opt <= max for every dynamic input."

ROWS: tuple[Row, ...] = (
    Row(
        r"BuildCanceled|Build canceled by user",
        "cancelled",
        "The build was told to stop.",
        "Submit it again if that was not meant.",
        TRT,
    ),
    Row(
        r"Network has dynamic or shape inputs, but no optimization profile",
        "profile_required",
        "An input has a dynamic dimension and no profile gives its range.",
        PROFILE_FIX,
        TRT,
    ),
    Row(
        r"same name .* different constant values|contradictory IOptimizationProfile"
        r"|Input dimensions with this name have different constant values",
        "profile_dim_conflict",
        "Dimensions that carry one name in the model have different ranges in the profile (a name"
        " such as '?' or '-1' may have been given to dimensions that are not the same).",
        "Give these dimensions the same range, or export the model with a name of its own for each"
        " dimension.",
        TRT,
    ),
    Row(
        r"Invalid optimization profiles|MIN<=OPT<=MAX|kMIN|Dimension mismatch for tensor"
        r"|dimensions but profile \d+ has",
        "invalid_profile",
        "The optimization profile does not fit the model's inputs.",
        PROFILE_FIX + " Static dimensions must equal the model's.",
        TRT,
    ),
    Row(
        r"tScope\.getType\(\) != ScopeType::kUNDEFINED|graphScope\.cpp",
        "control_flow_unsupported",
        "The compiler cannot place the model's If or Loop subgraphs; often a branch whose shapes"
        " differ from the other's.",
        "Make the condition a constant (a fixed sampling rate, say) and fold the branch away, or"
        " export the model without control flow.",
        TRT,
    ),
    Row(
        r"IConditionalOutputLayer|If.{0,40}branch.{0,60}(shape|type)",
        "control_flow_unsupported",
        "The two branches of an If do not give tensors of one type and shape.",
        "Cast inside the branch, or fold the condition to a constant before exporting.",
        TRT,
    ),
    Row(
        r"Unsupported ONNX data type: (STRING|\w+)|Failed to convert ONNX date type"
        r"|unsupported datatype",
        "unsupported_data_type",
        "A tensor has a data type that the compiler does not know.",
        "Cast it at export to a type that every runtime has, and keep text processing out of the"
        " model.",
        TRT,
    ),
    Row(
        r"Failed to import initializer",
        "unsupported_initializer",
        "A weight cannot be read: its type is not supported, or its external data is missing.",
        "Cast the weight at export, and upload every external data file with the model.",
        TRT,
    ),
    Row(
        r"(?:NonZero|NonMaxSuppression|Unique|Compress)\b.{0,80}(?:plugin|runners)",
        "data_dependent_shape",
        "A shape depends on the values of a tensor, which this compiler cannot build.",
        "Move the step (NMS, NonZero, …) behind the model.",
        TRT,
    ),
    Row(
        r"Plugin not found|could not find plugin|No importer registered for op"
        r"|getPluginCreator|plugin creator version .* was not found",
        "unsupported_operator",
        "The compiler has neither this operator nor a plugin for it.",
        "Export without it, rewrite it with standard operators, or choose another backend.",
        TRT,
    ),
    Row(
        r"Non-zero zero point is not supported",
        "quantization_asymmetric",
        "The model is quantized with a zero point other than 0.",
        "Quantize symmetrically to int8 (ActivationSymmetric and WeightSymmetric).",
        TRT,
    ),
    Row(
        r"Scale coefficients must all be positive",
        "quantization_scale_invalid",
        "A quantization scale is zero, negative or not a number.",
        "Calibrate again with data that exercises every channel, or leave that node out.",
        TRT,
    ),
    Row(
        r"only activation types allowed|has type Int32 but must have type|bias_DequantizeLinear",
        "quantization_bias",
        "The bias of a layer is quantized to int32.",
        "Quantize with QuantizeBias=False.",
        TRT,
    ),
    Row(
        r"Quantized constant .* is only allowed before",
        "quantization_constant",
        "A constant that is no weight is quantized.",
        "Quantize Conv, ConvTranspose, Gemm and MatMul only.",
        TRT,
    ),
    Row(
        r"Cannot compile for target|HW-specific datatypes|FP32 GEMM is not supported",
        "precision_not_on_architecture",
        "The model uses a number type that this architecture does not have.",
        "Choose an architecture that has it, or another precision.",
        TRT,
    ),
    Row(
        r"must have same input types",
        "mixed_types",
        "An operator mixes data types, and types are taken strictly as the model says.",
        "Insert a Cast at export.",
        TRT,
    ),
    Row(
        r"K exceeds the maximum value allowed",
        "topk_too_large",
        "TopK asks for more elements than the compiler supports.",
        "Reduce K, or do this step after the model.",
        TRT,
    ),
    Row(
        r"has no runners that implement it|is a shape tensor and must have type",
        "data_dependent_shape",
        "A shape depends on the values of a tensor, which this compiler cannot build.",
        "Move the step (NMS, NonZero, …) behind the model.",
        TRT,
    ),
    Row(
        r"reshape changes volume|last dimension of input0|volume mismatch"
        r"|reshape would change volume",
        "shape_mismatch",
        "The model does not take the profile's sizes: they are too small, not a multiple of what it"
        " needs, or others than were baked in at export.",
        "Give a profile of sizes that the model takes (networks that halve an image take multiples"
        " of 32, say). If a size was baked in at export, export again with dynamic shapes, or give"
        " a profile of exactly that shape.",
        TRT,
    ),
    Row(
        r"no tactics to implement the operation within workspace limit"
        r"|Could not find any implementation for node",
        "workspace_too_small",
        "No implementation fits: usually too little workspace, seldom an operator without a kernel"
        " for this architecture.",
        "Raise options.compile.workspace_mib, reduce the profile's max, or choose another"
        " architecture.",
        TRT,
    ),
    Row(
        r"Requested amount of (GPU )?memory|OutOfMemory|out of memory|CUDA_ERROR_OUT_OF_MEMORY",
        "out_of_memory",
        "Memory ran out: something else held it, or the model needs more than there is.",
        "Reduce the profile's max or the workspace, or use a larger node.",
        TRT,
        Blame.NODE,
    ),
    Row(
        r"Network must have at least one output|at least one output",
        "empty_graph",
        "The graph computes nothing.",
        "Export the model with its nodes and outputs.",
        TRT,
    ),
    Row(
        r"engine plan file is not compatible|Magic tag does not match",
        "engine_incompatible",
        "The engine was built by another version of the runtime, or the file is damaged.",
        "Build it again with the version that shall run it.",
        TRT,
    ),
    Row(
        r"incompatible device|expecting compute",
        "engine_incompatible",
        "The engine was built for another architecture.",
        "Choose the target of the GPU that shall run it.",
        TRT,
    ),
    Row(
        r"cudaError 35|driver version is insufficient|CUDA initialization failure",
        "driver_too_old",
        "The NVIDIA driver here is too old, or the GPU is not visible.",
        "Update the driver of the node, or expose the GPU to the container.",
        TRT,
        Blame.NODE,
    ),
)
