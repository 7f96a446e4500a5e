"""Make an input a constant of the model, or give it the one shape that it always has."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from enginefarm.fixed import shape_of
from enginefarm.spec import FixedInput
from workers.repair.base import Ground


def run(model: onnx.ModelProto, ground: Ground) -> str | None:
    """Do what was asked for; whether it can be done was asked before."""
    declared = {row.name: row for row in ground.declared}
    done = []
    for name, wanted in ground.fixed.items():
        value = next(row for row in model.graph.input if row.name == name)
        shape = shape_of(declared[name], wanted)
        if wanted.value is not None:
            model.graph.input.remove(value)
            model.graph.initializer.append(_filled(value, shape, wanted))
            done.append(f"{name} is {wanted.value!r}")
        else:
            _set_shape(value, shape)
            done.append(f"{name} is {'x'.join(map(str, shape))}")
    if not done:
        return None
    _forget_shapes(model.graph)
    return ", ".join(done)


def _filled(value: onnx.ValueInfoProto, shape: list[int], wanted: FixedInput) -> onnx.TensorProto:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    return numpy_helper.from_array(np.full(shape, wanted.value, dtype), value.name)


def _set_shape(value: onnx.ValueInfoProto, shape: list[int]) -> None:
    del value.type.tensor_type.shape.dim[:]
    for size in shape:
        value.type.tensor_type.shape.dim.add().dim_value = size


def _forget_shapes(graph: onnx.GraphProto) -> None:
    """Leave the shapes in between to inference: what was noted may be said more exactly now."""
    del graph.value_info[:]
