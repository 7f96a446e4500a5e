"""ONNX Runtime 1.32 on a processor, measured with ONNX's own cases for its operators.

For which type of its first input it lacks which version of an operator is in
``onnxruntime_lacks.txt``, which ``python -m bench.onnx_kernels`` writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from enginefarm.preflight.tables.limits import Capabilities, Limit, NeedsAttribute, OnlyValues

LACKS = Path(__file__).with_name("onnxruntime_lacks.txt")


def _one_of(op: str, attribute: str, *allowed: str) -> OnlyValues:
    return OnlyValues(
        op, attribute, allowed[0], allowed, f"of {attribute} only {', '.join(allowed)}"
    )


def _lacking() -> Iterator[tuple[str, frozenset[str]]]:
    for line in LACKS.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            kind, *forms = line.split()
            yield kind, frozenset(forms)


_PADDED = ("AveragePool", "Conv", "ConvInteger", "ConvTranspose", "LpPool", "MaxPool")
_LIMITS: tuple[Limit, ...] = (
    *(NeedsAttribute(op, "hidden_size") for op in ("GRU", "LSTM", "RNN")),
    *(OnlyValues(op, "layout", 0, (0,), "only layout 0") for op in ("GRU", "LSTM", "RNN")),
    *(
        _one_of(op, attribute, *allowed.split())
        for op, attribute, allowed in (
            *((op, "auto_pad", "NOTSET SAME_UPPER SAME_LOWER VALID") for op in _PADDED),
            ("DepthToSpace", "mode", "DCR CRD"),
            ("GridSample", "mode", "linear nearest cubic bilinear bicubic"),
            ("GridSample", "padding_mode", "zeros border reflection"),
            ("Pad", "mode", "constant reflect edge wrap"),
            ("Resize", "mode", "nearest linear cubic"),
            ("TensorScatter", "mode", "linear circular"),
        )
    ),
    OnlyValues("LpNormalization", "p", 2, (1, 2), "only L1 and L2"),
    OnlyValues("Mod", "fmod", 0, (0, 1), "only fmod 0 and 1"),
)

V1_32 = Capabilities(
    label="ONNX Runtime",
    version="1.32",
    newest_opset=28,
    missing=frozenset({"ImageDecoder"}),
    missing_from={
        "Bernoulli": 22,
        "DequantizeLinear": 28,
        "GlobalLpPool": 22,
        "MaxRoiPool": 22,
        "Multinomial": 22,
        "OptionalGetElement": 28,
        "OptionalHasElement": 28,
        "QuantizeLinear": 28,
        "RandomNormal": 22,
        "RandomNormalLike": 22,
        "RandomUniform": 22,
        "RandomUniformLike": 22,
        "RoiAlign": 22,
        "SwiGLU": 28,
        "Swish": 25,
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
        "bfloat16": frozenset({"Gelu", "LogSoftmax", "Softmax", "Where"}),
        "float4e2m1": frozenset({"Cast", "CastLike"}),
    },
    no_form=dict(_lacking()),
    limits=_LIMITS,
    types_by_schema=True,
    bytes_per_weight_byte=3.0,
)
