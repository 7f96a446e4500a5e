"""How much a node makes, told before it makes it: a few bytes of a file may ask for gigabytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx

from workers.backends.base import Array

_NEVER_MORE = ("Flatten", "Identity", "NonZero", "Re", "Slice", "Squeeze", "Unsqueeze")
"""What they begin with that give no more elements than they read: ``Re`` is Reshape and Reduce."""


def made_by(node: onnx.NodeProto, given: Sequence[Array]) -> float:
    """Return how many elements a node makes of these inputs, at most; 0: no more than it reads.

    Raises:
        IndexError: it lacks an input.
    """
    if node.op_type in _GROWTH:
        return _GROWTH[node.op_type](node, given)
    if node.op_type.startswith(_NEVER_MORE):
        return 0
    return _together([array.shape for array in given])


def _of_range(_node: onnx.NodeProto, given: Sequence[Array]) -> float:
    start, limit, step = (float(array.ravel()[0]) for array in given)
    found = abs((limit - start) / step) if step else math.inf
    return math.inf if math.isnan(found) else found


def _of_expand(_node: onnx.NodeProto, given: Sequence[Array]) -> float:
    return _together([given[0].shape, tuple(given[1].ravel().tolist())])


def _of_gather(node: onnx.NodeProto, given: Sequence[Array]) -> float:
    axis = next((row.i for row in node.attribute if row.name == "axis"), 0)
    return float(given[1].size * given[0].size / max(given[0].shape[axis], 1))


def _of_gather_nd(_node: onnx.NodeProto, given: Sequence[Array]) -> float:
    whole, places = given[0].shape, given[1].shape
    return float(math.prod(places[:-1]) * math.prod(whole[places[-1] :]))


_GROWTH: dict[str, Callable[[onnx.NodeProto, Sequence[Array]], float]] = {
    "Concat": lambda _node, given: sum(array.size for array in given),
    "ConstantOfShape": lambda _node, given: _product(given[0]),
    "Expand": _of_expand,
    "Gather": _of_gather,
    "GatherND": _of_gather_nd,
    "Range": _of_range,
    "Tile": lambda _node, given: given[0].size * _product(given[1]),
}


def _product(sizes: Array) -> float:
    return float(np.prod(sizes, dtype=np.float64))


def _together(shapes: Sequence[tuple[int, ...]]) -> float:
    """Return the elements of the shape to which all of these are broadcast."""
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return math.prod(float(max(sizes)) for sizes in zip(*padded, strict=True))
