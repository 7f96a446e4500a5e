"""TensorRT-RTX 1.7, measured ahead of time on a machine without a GPU.

Every row was seen: ONNX's own cases for its operators, parsed and built for every architecture.
"""

from __future__ import annotations

from enginefarm.preflight.names import words
from enginefarm.preflight.tables.limits import (
    Capabilities,
    ConstantInput,
    Limit,
    MostOutputs,
    OnlyOnes,
    OnlyValues,
)

LOSSES = frozenset({"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"})
SEQUENCES = words(
    "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt "
    "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap "
    "SplitToSequence"
)
TEXTS = words("RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer")
BITS = words("BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor")
INTEGER_MATH = words("ConvInteger DynamicQuantizeLinear MatMulInteger QLinearConv QLinearMatMul")
_REST = words(
    "AffineGrid Bernoulli CausalConvWithState CenterCropPad Col2Im Compress CumProd DFT "
    "DeformConv Det FlexAttention ImageDecoder LinearAttention MaxRoiPool MaxUnpool "
    "MelWeightMatrix Multinomial NonMaxSuppression NonZero RoiAlign SwiGLU TreeEnsemble Unique"
)
_REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd"
    " ReduceSum ReduceSumSquare"
)
POOLS: tuple[Limit, ...] = tuple(
    OnlyOnes(op, "dilations") for op in ("AveragePool", "LpPool", "MaxPool")
)
COMMON: tuple[Limit, ...] = (
    *POOLS,
    OnlyValues("LpPool", "p", 2, (1, 2), "only L1 and L2 pooling"),
    MostOutputs("MaxPool", 1),
    MostOutputs("LayerNormalization", 1),
    OnlyValues("BatchNormalization", "training_mode", 0, (0,), "no training mode"),
    OnlyValues("Resize", "antialias", 0, (0,), "no antialiasing"),
    OnlyValues("Resize", "keep_aspect_ratio_policy", "stretch", ("stretch",), "only 'stretch'"),
    OnlyValues("ScatterND", "reduction", "none", ("none",), "no reduction"),
    OnlyValues(
        "Resize",
        "nearest_mode",
        "round_prefer_floor",
        ("round_prefer_floor",),
        "with tf_half_pixel_for_nn only round_prefer_floor",
        ("coordinate_transformation_mode", "tf_half_pixel_for_nn"),
    ),
    ConstantInput("Dropout", 2, "training_mode"),
    ConstantInput("OneHot", 1, "depth", of_values=True),
    ConstantInput("QuantizeLinear", 2, "a zero point", unless=frozenset({"float8e4m3fn"})),
    ConstantInput("DequantizeLinear", 2, "a zero point", unless=frozenset({"float8e4m3fn"})),
    ConstantInput("Resize", 2, "scales", of_values=True),
    ConstantInput("STFT", 1, "frame_step"),
    ConstantInput("Squeeze", 1, "axes"),
    ConstantInput("Unsqueeze", 1, "axes"),
    *(ConstantInput(op, 1, "axes") for op in _REDUCTIONS.split()),
)
LIMITS: tuple[Limit, ...] = (
    *COMMON,
    MostOutputs("Attention", 1),
    OnlyValues("Attention", "softcap", 0.0, (0.0,), "no softcap"),
    OnlyValues("ScatterElements", "reduction", "none", ("none",), "no reduction"),
    OnlyValues("TensorScatter", "mode", "linear", ("linear",), "only the linear mode"),
)

V1_7 = Capabilities(
    label="TensorRT-RTX",
    version="1.7",
    # It takes any; what the farm looks at models with knows no newer ones.
    newest_opset=28,
    missing=LOSSES | SEQUENCES | TEXTS | BITS | INTEGER_MATH | _REST,
    knows_by_name=True,
    other_domains={
        "com.microsoft": words(
            "DequantizeLinear Gelu GroupQueryAttention MatMulNBits MultiHeadAttention "
            "QuantizeLinear RotaryEmbedding SimplifiedLayerNormalization"
        ),
        "trt": words(
            "TRT_FP8QuantizeLinear TRT_FP8DequantizeLinear TRT_INT4QuantizeLinear "
            "TRT_INT4DequantizeLinear TRT_FP4DynamicQuantize TRT_MXFP8DynamicQuantize "
            "TRT_MXFP8DequantizeLinear"
        ),
    },
    refused_types=words(
        "int16 uint16 uint32 uint64 string complex64 complex128 float8e4m3fnuz float8e5m2 "
        "float8e5m2fnuz float8e8m0 float6e2m3 float6e3m2 uint4 int2 uint2"
    ),
    narrowed_types={"float64": "float32"},
    no_kernel={
        "uint8": words(
            "Add Clip Conv Div Greater GreaterOrEqual Less LessOrEqual MatMul "
            "Max MaxPool Min Mod Mul Sub"
        ),
        "int8": frozenset({"Clip", "Mod"}),
        "float16": frozenset({"Celu", "Range"}),
        "bfloat16": frozenset({"Celu", "Range"}),
        "bool": frozenset({"ReduceMax", "ReduceMin"}),
    },
    cast_only_types=frozenset({"float8e4m3fn", "float4e2m1", "int4"}),
    limits=LIMITS,
    most_topk=3840,
    needs_profile_values=True,
    symmetric_only=True,
    types_by_arch={
        "bfloat16": frozenset({"sm_80", "sm_86", "sm_89", "sm_120"}),
        "int4": frozenset({"sm_80", "sm_86", "sm_89", "sm_120"}),
        "float8e4m3fn": frozenset({"sm_89", "sm_120"}),
        "float4e2m1": frozenset({"sm_120"}),
    },
    no_fp32_gemm=frozenset({"sm_75"}),
    branches_alike=True,
    names_are_sizes=True,
    slices_whole=True,
    # A build of 2.4 GB of weights took 5.05 GB at its peak; some room is left.
    bytes_per_weight_byte=2.6,
)
