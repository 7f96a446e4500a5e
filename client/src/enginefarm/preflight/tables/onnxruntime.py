"""ONNX Runtime 1.32 on a processor, measured with ONNX's own cases for its operators."""

from __future__ import annotations

from enginefarm.preflight.names import words
from enginefarm.preflight.tables.limits import Capabilities, OnlyValues

_NO_BF16 = words(
    "Abs Add ArgMax Attention AveragePool BatchNormalization Ceil Conv ConvTranspose Cos CumSum "
    "Div Elu Equal Erf Exp Expand Floor GRU Gelu Gemm GlobalAveragePool GlobalMaxPool Greater "
    "HardSigmoid HardSwish Hardmax InstanceNormalization LRN LSTM LeakyRelu Less Log LogSoftmax "
    "LpNormalization MatMul Max MaxPool Mean Min Mish Mod Mul Neg PRelu Pow Reciprocal ReduceL2 "
    "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu "
    "Resize Round Selu Sigmoid Sin Softmax Softplus Softsign Sqrt Sub Sum Swish Tanh "
    "ThresholdedRelu Tile Trilu Where"
)
_NO_DOUBLE = words(
    "AveragePool Conv ConvTranspose Elu Erf Gelu GlobalAveragePool GlobalMaxPool HardSigmoid "
    "HardSwish Hardmax InstanceNormalization LRN LeakyRelu Mean Mish PRelu Resize Selu Softplus "
    "Softsign ThresholdedRelu"
)

V1_32 = Capabilities(
    label="ONNX Runtime",
    version="1.32",
    newest_opset=28,
    missing=frozenset({"ImageDecoder"}),
    missing_from={
        "DequantizeLinear": 28,
        "OptionalGetElement": 28,
        "OptionalHasElement": 28,
        "QuantizeLinear": 28,
        "RandomUniformLike": 22,
        "RoiAlign": 22,
    },
    other_domains={
        "ai.onnx.ml": None,
        "com.microsoft": None,
        "com.microsoft.nchwc": None,
        "com.ms.internal.nhwc": None,
        "ai.onnx.training": None,
        "org.pytorch.aten": None,
    },
    refused_types=frozenset({"complex64", "complex128", "float6e2m3", "float6e3m2"}),
    no_kernel={
        "bfloat16": _NO_BF16,
        "float64": _NO_DOUBLE,
        "int16": frozenset({"Max", "Min"}),
        "uint16": frozenset({"Max", "Min"}),
        "float4e2m1": frozenset({"Cast", "CastLike"}),
    },
    limits=tuple(
        OnlyValues(op, "layout", 0, (0,), "only layout 0") for op in ("GRU", "LSTM", "RNN")
    ),
    bytes_per_weight_byte=3.0,
)
