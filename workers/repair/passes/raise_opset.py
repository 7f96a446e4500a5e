"""Bring a model of an opset that runtimes no longer take to one that they do."""

from __future__ import annotations

import onnx
from onnx import version_converter

from workers.repair.base import Ground, NotApplied

OLDEST_TAKEN = 7
"""ONNX Runtime and TensorRT promise nothing for older ones."""
GOAL = 13
_OWN = ("", "ai.onnx")


def run(model: onnx.ModelProto, _ground: Ground) -> str | None:
    """Let ONNX's own converter do it."""
    opset = next((row.version for row in model.opset_import if row.domain in _OWN), None)
    if opset is None or opset >= OLDEST_TAKEN:
        return None
    try:
        converted = version_converter.convert_version(model, GOAL)
    except Exception as error:
        message = f"ONNX's converter does not take it from opset {opset}: {str(error)[:200]}"
        raise NotApplied(message) from error
    model.CopyFrom(converted)
    return f"opset {opset} became {GOAL}"
