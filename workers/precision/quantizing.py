"""Quantize a model to int8 with ONNX Runtime's tool, with the settings that TensorRT takes, too.

Symmetric int8 for weights and activations, no quantized biases, and only operators that have int8
kernels: with its defaults the tool writes what TensorRT refuses. Samples go through the calibrator
one by one, since it holds what it has been given until it is asked for the ranges.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, MutableSequence, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import onnx
from onnxruntime.quantization import QuantType
from onnxruntime.quantization.calibrate import (
    EntropyCalibrater,
    MinMaxCalibrater,
    PercentileCalibrater,
)
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
from onnxruntime.quantization.quant_utils import load_model_with_shape_infer

from enginefarm.precision import CalibrationMethod
from enginefarm.precision_report import PrecisionRecipe
from workers.backends.base import MODEL_BYTES_IN_ONE_FILE
from workers.backends.ort_session import opened_as_written
from workers.measurement.inputs import Feeds
from workers.precision.histograms import BINS, Histograms
from workers.precision.running import save
from workers.repair.passes import sort_nodes

_CALIBRATORS = {
    CalibrationMethod.MINMAX: MinMaxCalibrater,
    CalibrationMethod.ENTROPY: EntropyCalibrater,
    CalibrationMethod.PERCENTILE: PercentileCalibrater,
}
_OPTIONS = {
    "ActivationSymmetric": True,
    "WeightSymmetric": True,
    # TensorRT takes no int32 biases, nor a node that has another's scale.
    "QuantizeBias": False,
    "DedicatedQDQPair": True,
    # Made for quantized biases, and fails on weights of one channel.
    "QDQDisableWeightAdjustForInt32Bias": True,
}
Rows = MutableSequence[onnx.ValueInfoProto]
QUANTIZED_ALREADY = frozenset(
    [
        "ConvInteger",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "MatMulInteger",
        "MatMulNBits",
        "QLinearConv",
        "QLinearMatMul",
        "QuantizeLinear",
    ]
)
_LOAD = "DequantizeLinear"
LEAST_OPSET = 13
"""Scales by channel came with it."""


@dataclass
class _One:
    """A reader of one sample."""

    feeds: Feeds | None

    def get_next(self) -> Feeds | None:
        feeds, self.feeds = self.feeds, None
        return feeds


def quantize(
    model: onnx.ModelProto,
    recipe: PrecisionRecipe,
    samples: Iterable[Feeds],
    folder: Path,
    alive: Callable[[int], None],
) -> onnx.ModelProto:
    """Return the model with Q/DQ nodes; ``alive`` is told how many samples were taken.

    ``folder`` is for files on the way; ``model`` has its external data in memory.
    """
    source = folder / "source.onnx"
    save(model, source)
    large = model.ByteSize() > MODEL_BYTES_IN_ONE_FILE
    ranges = _ranges(source, recipe, samples, folder, large, alive)
    quantizer = QDQQuantizer(
        load_model_with_shape_infer(source),
        recipe.per_channel is True,
        False,
        QuantType.QInt8,
        QuantType.QInt8,
        ranges,
        [],
        excluded(model.graph, recipe.exclude),
        list(recipe.op_types),
        dict(_OPTIONS),
    )
    quantizer.quantize_model()
    made: onnx.ModelProto = quantizer.model.model
    sort_nodes.sort(made.graph)  # the tool's own does not see what a branch reads around it
    declare_as(model.graph.input, made.graph.input)
    declare_as(model.graph.output, made.graph.output)
    return made


def declare_as(before: Rows, after: Rows) -> None:
    """Take back what shape inference wrote into the interface; names and types are not touched."""
    known = {row.name: row for row in before}
    for row in after:
        told = known.get(row.name)
        if told is not None and _element(told) == _element(row):
            row.CopyFrom(told)


def _element(row: onnx.ValueInfoProto) -> int:
    return row.type.tensor_type.elem_type


def _ranges(
    source: Path,
    recipe: PrecisionRecipe,
    samples: Iterable[Feeds],
    folder: Path,
    large: bool,  # noqa: FBT001 - a property of the file
    alive: Callable[[int], None],
) -> Any:  # noqa: ANN401 - the tool's own class
    extra: dict[str, Any] = {"symmetric": True}
    if recipe.method is CalibrationMethod.PERCENTILE:
        extra["percentile"] = recipe.percentile
    # Not by the tool's create_calibrator, whose session would know no operators of plugins.
    calibrator = _CALIBRATORS[recipe.method or CalibrationMethod.MINMAX](
        source,
        list(recipe.op_types),
        augmented_model_path=str(folder / "watched.onnx"),
        use_external_data_format=large,
        **extra,
    )
    calibrator.augment_graph()
    calibrator.infer_session = opened_as_written(folder / "watched.onnx")
    if recipe.method in BINS:
        calibrator.collector = Histograms(str(recipe.method), recipe.percentile)
    for number, feeds in enumerate(samples):
        with redirect_stdout(StringIO()):  # it says the same of every sample
            calibrator.collect_data(_One(feeds))
        alive(number + 1)
    with redirect_stdout(StringIO()):
        return calibrator.compute_data()


def excluded(graph: onnx.GraphProto, patterns: Sequence[str]) -> list[str]:
    """Return the names of the nodes that any of the patterns fits; case matters."""
    return [
        node.name
        for node in graph.node
        if any(fnmatch.fnmatchcase(node.name, pattern) for pattern in patterns)
    ]


def quantized_nodes(
    before: onnx.GraphProto, after: onnx.GraphProto, op_types: Sequence[str]
) -> set[str]:
    """Return the names of the nodes of ``before`` both of whose operands ``after`` quantizes."""
    made = {each for node in after.node if node.op_type == _LOAD for each in node.output}
    names = {node.name for node in before.node if node.op_type in op_types}
    return {node.name for node in after.node if node.name in names and set(node.input[:2]) <= made}


def already_quantized(graph: onnx.GraphProto) -> list[str]:
    """Return the nodes that say that a model is quantized."""
    return [row.name or row.op_type for row in graph.node if row.op_type in QUANTIZED_ALREADY]
