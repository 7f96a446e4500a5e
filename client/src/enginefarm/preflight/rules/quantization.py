"""Q/DQ as a backend takes it: symmetric, with scales above zero, and without quantized biases."""

from __future__ import annotations

import math
from collections.abc import Iterator

from enginefarm.finding import Finding, Severity, at_nodes
from enginefarm.preflight.facts import NodeFacts, TensorFacts
from enginefarm.preflight.rules.grouping import refusal
from enginefarm.preflight.subject import Rule, Subject

_QDQ = frozenset({"DequantizeLinear", "QuantizeLinear"})
_DOMAINS = frozenset({"", "com.microsoft"})
_RESTORE = "or submit with --allow restore-float"


def _qdq(subject: Subject) -> Iterator[tuple[NodeFacts, TensorFacts | None, TensorFacts | None]]:
    """Give each Q/DQ node with its scale and zero point, as far as they are constants."""
    known = subject.constants
    for node in subject.facts.graph.every_node():
        if node.op in _QDQ and node.domain in _DOMAINS:
            yield node, known.get(node.given(1)), known.get(node.given(2))


def zero_points(subject: Subject) -> Iterator[Finding]:
    """Zero points other than 0, where only symmetric quantization is taken."""
    if not subject.capabilities.symmetric_only:
        return
    labels = [
        node.label for node, _, zero in _qdq(subject) if zero is not None and any(zero.values or ())
    ]
    if labels:
        yield at_nodes(
            refusal(
                subject,
                "quantization_asymmetric",
                f"{subject.capabilities.label} takes no zero point other than 0.",
                why="The model is quantized asymmetrically, as tools do by default.",
                fix="Quantize symmetrically to int8 (ActivationSymmetric and WeightSymmetric), "
                f"{_RESTORE}.",
            ),
            labels,
        )


def scales(subject: Subject) -> Iterator[Finding]:
    """Scales that are zero, negative or no numbers: a channel that calibration never saw."""
    labels = [
        node.label
        for node, scale, _ in _qdq(subject)
        if scale is not None
        and not node.whole("block_size", 0)  # of blocks of weights they may be negative
        and any(not value > 0 or math.isinf(value) for value in scale.values or ())
    ]
    if labels:
        found = refusal(
            subject,
            "quantization_scale_invalid",
            "A quantization scale is zero, negative or not a number.",
            fix="Calibrate again with data that exercises every channel, or leave that node out.",
        )
        if not subject.capabilities.symmetric_only:
            found = found.model_copy(update={"severity": Severity.WARNING})
        yield at_nodes(found, labels)


def biases(subject: Subject) -> Iterator[Finding]:
    """Biases that were quantized to int32, as ONNX Runtime's tool does by default."""
    if not subject.capabilities.symmetric_only:
        return
    labels = [
        node.label
        for node, _, _ in _qdq(subject)
        if node.op == "DequantizeLinear" and subject.types.get(node.given(0)) == "int32"
    ]
    if labels:
        yield at_nodes(
            refusal(
                subject,
                "quantization_bias",
                "The bias of a layer is quantized to int32.",
                fix=f"Quantize with QuantizeBias=False, {_RESTORE}.",
            ),
            labels,
            "DequantizeLinear",
        )


RULES: tuple[Rule, ...] = (zero_points, scales, biases)
