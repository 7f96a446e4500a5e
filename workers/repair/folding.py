"""Compute once what is constant in a graph: shapes that are fixed, and small arithmetic on them.

Values come from ONNX's own reference implementation. Only the outer graph is folded; a branch is
once it has been taken in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from workers.backends.base import Array
from workers.repair.branches import inner_graphs
from workers.repair.differences import is_read_otherwise
from workers.repair.growth import made_by

MOST_ELEMENTS = 1 << 20
"""Larger results are left to be computed: a file must not grow by what one node makes."""
MOST_GROWN = 1 << 12
"""The same for nodes that make much out of little."""
MOST_IN_ALL = 1 << 24
"""Many results of that size together are left, too: each stays in memory and in the file."""

FOLDED = frozenset(
    {
        "Abs",
        "Add",
        "And",
        "Cast",
        "Ceil",
        "Concat",
        "ConstantOfShape",
        "Div",
        "Equal",
        "Expand",
        "Flatten",
        "Floor",
        "Gather",
        "GatherND",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "Less",
        "LessOrEqual",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "NonZero",
        "Not",
        "Or",
        "Pow",
        "Range",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "Reshape",
        "Slice",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Tile",
        "Transpose",
        "Unsqueeze",
        "Where",
        "Xor",
    }
)
_GROWING = frozenset({"ConstantOfShape", "Expand", "Range", "Tile"})
Dims = list[int | None]


class Constants:
    """What is known of the values and shapes of one graph."""

    def __init__(self, model: onnx.ModelProto) -> None:
        """Infer shapes once, as far as ONNX's own inference reaches."""
        graph = model.graph
        inputs = {value.name for value in graph.input}
        self._tensors = {t.name: t for t in graph.initializer if t.name not in inputs}
        self._values: dict[str, Array] = {}
        self._partial: dict[str, Dims] = {}
        self._opsets = list(model.opset_import)
        self._ir = model.ir_version
        self._made = 0
        self._shapes = dict(_shapes(model))

    def value(self, name: str) -> Array | None:
        """Return what a tensor always holds, if that is known and small enough."""
        if name not in self._values and name in self._tensors:
            tensor = self._tensors[name]
            external = tensor.data_location == onnx.TensorProto.EXTERNAL
            if external or int(np.prod(tensor.dims, dtype=np.int64)) > MOST_ELEMENTS:
                return None
            self._values[name] = numpy_helper.to_array(tensor)
        return self._values.get(name)

    def admit(self, weights: Iterable[onnx.TensorProto]) -> None:
        """Know weights that have come into the graph since."""
        for tensor in weights:
            self._tensors[tensor.name] = tensor
            self._shapes[tensor.name] = list(tensor.dims)

    def learn(self, node: onnx.NodeProto) -> Array | None:
        """Return the one output of a node, if it is always the same; remember it."""
        if node.domain or len(node.output) != 1:
            return None
        found = self._of_shape(node) if node.op_type in _OF_SHAPE else self._computed(node)
        if found is not None:
            self._values[node.output[0]] = found
        return found

    def _of_shape(self, node: onnx.NodeProto) -> Array | None:
        """Follow a shape of which some dimensions are known through what picks one of them."""
        if node.op_type == "Shape":
            return self._shape(node)
        if node.op_type == "Size":
            dims = self._shapes.get(node.input[0])
            if dims is None or None in dims:
                return None
            return np.array(math.prod(dim for dim in dims if dim is not None), np.int64)
        source = self._partial.get(node.input[0])
        if source is None or self.value(node.input[0]) is not None:
            return self._computed(node)
        picked = self._pick(node, len(source))
        chosen = None if picked is None else [source[i] for i in picked.ravel()]
        if picked is None or chosen is None or None in chosen:
            return None
        return np.array(chosen, np.int64).reshape(picked.shape)

    def _shape(self, node: onnx.NodeProto) -> Array | None:
        dims = self._shapes.get(node.input[0])
        if dims is None:
            return None
        given = {a.name: int(a.i) for a in node.attribute}
        dims = dims[given.get("start", 0) : given.get("end", len(dims))]
        self._partial[node.output[0]] = dims
        return None if None in dims else np.array(dims, np.int64)

    def _pick(self, node: onnx.NodeProto, count: int) -> Array | None:
        """Return which positions a Gather or Slice takes, by letting it take them."""
        others = [self.value(name) if name else None for name in node.input[1:]]
        if any(other is None and name for other, name in zip(others, node.input[1:], strict=True)):
            return None
        positions = np.arange(count, dtype=np.int64)
        return self._run(node, {node.input[0]: positions})

    def _computed(self, node: onnx.NodeProto) -> Array | None:
        if node.op_type == "Constant":
            return _constant(node)
        if node.op_type not in FOLDED or not node.input:
            return None
        if any(name and self.value(name) is None for name in node.input):
            return None
        return self._run(node, {})

    def _run(self, node: onnx.NodeProto, more: Mapping[str, Array]) -> Array | None:
        feeds = {name: self.value(name) for name in node.input if name} | dict(more)
        most = MOST_GROWN if node.op_type in _GROWING else MOST_ELEMENTS
        infos = [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in feeds.items()
            if array is not None
        ]
        out = onnx.helper.make_empty_tensor_value_info(node.output[0])
        graph = onnx.helper.make_graph([node], "one", infos, [out])
        model = onnx.helper.make_model(graph, opset_imports=self._opsets, ir_version=self._ir)
        given = [array for name in node.input if (array := feeds.get(name)) is not None]
        if is_read_otherwise(node, given):
            return None
        try:
            if made_by(node, given) > most:
                return None
            results: Any = ReferenceEvaluator(model).run(None, feeds)
        except Exception:  # noqa: BLE001 - what cannot be computed here is left to the runtime
            return None
        found = np.asarray(results[0])
        if found.size > min(most, MOST_IN_ALL - self._made):
            return None
        self._made += found.size
        return found


_OF_SHAPE = frozenset({"Shape", "Size", "Gather", "Slice"})


def _constant(node: onnx.NodeProto) -> Array | None:
    for attribute in node.attribute:
        if attribute.name == "value" and attribute.t.data_location != onnx.TensorProto.EXTERNAL:
            return numpy_helper.to_array(attribute.t)
        if attribute.name == "value_int":
            return np.array(attribute.i, np.int64)
        if attribute.name == "value_float":
            return np.array(attribute.f, np.float32)
        if attribute.name == "value_ints":
            return np.array(list(attribute.ints), np.int64)
        if attribute.name == "value_floats":
            return np.array(list(attribute.floats), np.float32)
    return None


def _shapes(model: onnx.ModelProto) -> Iterator[tuple[str, Dims]]:
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    _forget_noted(bare.graph)
    graph = shape_inference.infer_shapes(bare, data_prop=True).graph
    for tensor in graph.initializer:
        yield tensor.name, list(tensor.dims)
    for value in [*graph.input, *graph.value_info, *graph.output]:
        tensor_type = value.type.tensor_type
        if tensor_type.HasField("shape"):
            yield (
                value.name,
                [d.dim_value if d.HasField("dim_value") else None for d in tensor_type.shape.dim],
            )


def _forget_noted(graph: onnx.GraphProto, *, inner: bool = False) -> None:
    """Leave only the shapes that a runtime holds a caller to: those of the model's inputs.

    Any other note, of an output or within a branch, may be wrong, and inference would believe it.
    A size below zero is an exporter's word for any size.
    """
    del graph.value_info[:]
    for dim in (dim for value in graph.input for dim in value.type.tensor_type.shape.dim):
        if dim.dim_value < 0:
            dim.Clear()
    noted = list(graph.output)
    if inner:
        noted += graph.input
    for value in noted:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for each in inner_graphs(node):
            _forget_noted(each, inner=True)
