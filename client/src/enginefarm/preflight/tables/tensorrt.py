"""TensorRT 10 and 11, from their documentation and parser sources: not measured by this farm."""

from __future__ import annotations

from dataclasses import replace

from enginefarm.preflight.names import words
from enginefarm.preflight.tables.limits import Limit, OnlyValues
from enginefarm.preflight.tables.tensorrt_rtx import (
    BITS,
    COMMON,
    INTEGER_MATH,
    LOSSES,
    SEQUENCES,
    TEXTS,
    V1_7,
)

_REST = words(
    "AffineGrid Bernoulli BlackmanWindow CausalConvWithState CenterCropPad Col2Im Compress "
    "CumProd Det FlexAttention HammingWindow HannWindow ImageDecoder LinearAttention MaxRoiPool "
    "MaxUnpool MelWeightMatrix Multinomial SwiGLU TreeEnsemble Unique"
)
_LIMITS: tuple[Limit, ...] = (
    *COMMON,
    OnlyValues("LSTM", "input_forget", 0, (0,), "no input_forget"),
    OnlyValues("LSTM", "layout", 0, (0,), "only layout 0"),
    OnlyValues("TopK", "sorted", 1, (1,), "only sorted results"),
)
_BF16 = frozenset({"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"})

V11 = replace(
    V1_7,
    label="TensorRT",
    version="11",
    missing=LOSSES | SEQUENCES | TEXTS | BITS | INTEGER_MATH | _REST,
    limits=_LIMITS,
    types_by_arch={
        "bfloat16": _BF16,
        "int4": _BF16,
        "float8e4m3fn": frozenset({"sm_89", "sm_90", "sm_100", "sm_120"}),
        "float4e2m1": frozenset({"sm_100", "sm_120"}),
    },
    no_fp32_gemm=frozenset(),
    # Not measured: where a documented limit is not met, the compiler has the last word.
    exact=False,
)
V10 = replace(V11, version="10", missing=V11.missing | {"DFT", "STFT"})
