"""Where ONNX's reference and ONNX Runtime give two results for the same values: nothing is folded.

A result counts as the same only if it is so in whatever order a runtime adds or multiplies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from workers.backends.base import Array

_EXACT_BELOW = {"float16": 2.0**11, "float32": 2.0**24, "float64": 2.0**53}
"""Whole numbers below are added and multiplied without rounding."""


def is_read_otherwise(node: onnx.NodeProto, given: Sequence[Array]) -> bool:
    """Tell whether the two may give different results for these inputs."""
    look = _LOOKS.get(node.op_type)
    return look is not None and look(node, given)


def _cast(node: onnx.NodeProto, given: Sequence[Array]) -> bool:
    """A number as text has as many digits as whoever writes it likes."""
    goal = next((row.i for row in node.attribute if row.name == "to"), 0)
    return goal == onnx.TensorProto.STRING or given[0].dtype.kind in "OSU"


def _extreme(_node: onnx.NodeProto, given: Sequence[Array]) -> bool:
    """Whether NaN is the largest of numbers depends on where it stands and on the opset."""
    return given[0].dtype.kind not in "biu" and bool(np.any(given[0] != given[0]))


def _sum(_node: onnx.NodeProto, given: Sequence[Array]) -> bool:
    return _depends_on_order(given[0], np.abs(given[0].astype(np.float64)).sum())


def _product(_node: onnx.NodeProto, given: Sequence[Array]) -> bool:
    sizes = np.maximum(np.abs(given[0].astype(np.float64)), 1.0)
    with np.errstate(over="ignore"):
        return _depends_on_order(given[0], sizes.prod())


def _depends_on_order(values: Array, bound: float) -> bool:
    """Tell whether a sum or product may be rounded, or may leave its type, on the way."""
    if values.dtype.kind in "iu":
        return not bound <= np.iinfo(values.dtype).max >> 1
    whole = bool(np.all(np.isfinite(values)) and np.all(np.trunc(values) == values))
    return not whole or not bound < _EXACT_BELOW.get(values.dtype.name, 0.0)


def _slice(_node: onnx.NodeProto, given: Sequence[Array]) -> bool:
    """A Slice backwards from before the first or to behind the last element."""
    if len(given) < len(("data", "starts", "ends", "steps")):
        return False
    least = min(given[0].shape, default=0)
    backwards = bool(np.any(given[-1] < 0))
    return backwards and bool(np.any(given[1] < -least) or np.any(given[2] > least))


_LOOKS: dict[str, Callable[[onnx.NodeProto, Sequence[Array]], bool]] = {
    "Cast": _cast,
    "NonZero": lambda _node, given: given[0].ndim == 0,
    "ReduceMax": _extreme,
    "ReduceMin": _extreme,
    "ReduceProd": _product,
    "ReduceSum": _sum,
    "Slice": _slice,
}
