"""Turn operators that quantize while they run back into floating point ones.

Dynamic int8 is a form for CPUs: the activations are quantized anew in each run, which rounds them.
Without it the numbers are those of the weights that the file holds, in fp32; results differ by what
the rounding was.
"""

from __future__ import annotations

import numpy as np
import onnx

from enginefarm.counted import counted
from workers.backends.base import Array
from workers.repair.base import Ground, NotApplied
from workers.repair.tidy import remove_unread
from workers.repair.wiring import Wiring

DYNAMIC = frozenset(
    {"DynamicQuantizeLinear", "ConvInteger", "MatMulInteger", "DynamicQuantizeLSTM"}
)
_OUTPUT_CHANNEL = {"ConvInteger": (None, 0), "MatMulInteger": (-2, -1)}
"""The axis of a weight with a scale for each channel, by the place at which it is multiplied."""


def run(model: onnx.ModelProto, _ground: Ground) -> str | None:
    """Replace every such operator, or none: half of a model in int8 would help nobody."""
    graph = model.graph
    wiring = Wiring(graph)
    found = [node for node in graph.node if node.op_type in DYNAMIC]
    if not found:
        return None
    for node in found:
        if node.op_type == "DynamicQuantizeLSTM":
            _restore_lstm(wiring, node)
        elif node.op_type in _OUTPUT_CHANNEL:
            _restore_product(wiring, node)
    wiring.write()
    remove_unread(graph)
    left = sorted({node.op_type for node in graph.node if node.op_type in DYNAMIC})
    if left:
        raise NotApplied(f"what {', '.join(left)} gives is read in a way that is not known here")
    many = sum(node.op_type != "DynamicQuantizeLinear" for node in found)
    told = counted(many, "operator computes", "operators compute")
    return f"{told} in float instead of dynamic int8"


def _restore_product(wiring: Wiring, node: onnx.NodeProto) -> None:
    """Follow a product of integers up to where it is scaled back, and compute that in float."""
    left, left_scale = _dequantized(wiring, node, 0)
    right, right_scale = _dequantized(wiring, node, 1)
    ends = [node.output[0]]
    after = wiring.only_reader(ends[-1])
    bias, divisor = None, ""
    if after.op_type == "Add":
        bias, divisor = _bias(wiring, after, ends[-1])
        ends.append(after.output[0])
        after = wiring.only_reader(ends[-1])
    if after.op_type != "Cast":
        raise NotApplied(f"{after.op_type} reads what {node.op_type} gives")
    scaled = wiring.only_reader(after.output[0])
    if scaled.op_type != "Mul" or not _scales(wiring, scaled, after, (left_scale, right_scale)):
        raise NotApplied(f"{node.op_type} is not scaled back by its own two scales")
    if bias is not None and not _is_product(wiring, divisor, (left_scale, right_scale)):
        raise NotApplied(f"the bias of {node.op_type} is divided by another scale than its product")
    goal = scaled.output[0]
    product = goal if bias is None else wiring.fresh(f"{goal}_product")
    kind = node.op_type.removesuffix("Integer")
    made = [onnx.helper.make_node(kind, [left, right], [product], name=node.name or product)]
    made[0].attribute.extend(node.attribute)
    if bias is not None:
        made.append(onnx.helper.make_node("Add", [product, bias], [goal], name=f"{goal}_bias"))
    wiring.replace(scaled, made)


def _dequantized(wiring: Wiring, node: onnx.NodeProto, place: int) -> tuple[str, str]:
    """Return the float tensor behind an integer input, and the name of the scale it was given."""
    name = node.input[place]
    zero = node.input[place + 2] if len(node.input) > place + 2 else ""
    maker = wiring.maker(name)
    if maker is not None and maker.op_type == "DynamicQuantizeLinear":
        return maker.input[0], maker.output[1]
    weight = wiring.value(name)
    if weight is None:
        raise NotApplied(f"{node.op_type} multiplies by what is neither a weight nor quantized")
    scale_name, scale = _weight_scale(wiring, node, place)
    axis = _OUTPUT_CHANNEL[node.op_type][place]
    _require_axis(node, scale, weight, place)
    shifted = weight.astype(np.float32) - _along(wiring.value(zero), weight, axis)
    restored = shifted * _along(scale, weight, axis)
    return wiring.constant(f"{name}_float", restored.astype(np.float32)), scale_name


def _require_axis(node: onnx.NodeProto, scale: Array, weight: Array, place: int) -> None:
    """Refuse scales of which it is not certain that they belong to the channels of the weight.

    They multiply the product, so where they lie in it is counted from its last axis.
    """
    if scale.size == 1:
        return
    axis = _OUTPUT_CHANNEL[node.op_type][place]
    wanted = 1 - weight.ndim if node.op_type == "ConvInteger" else axis
    sized = [number - scale.ndim for number, size in enumerate(scale.shape) if size > 1]
    fits = axis is not None and weight.ndim > 1 and sized == [wanted]
    if axis is None or not fits or weight.shape[axis] != scale.size:
        raise NotApplied(f"the scales of a weight of {node.op_type} are not those of its channels")


def _weight_scale(wiring: Wiring, node: onnx.NodeProto, place: int) -> tuple[str, Array]:
    """Find a weight's scale: the constant that the other input's scale is multiplied with."""
    maker = wiring.maker(node.input[1 - place])
    if maker is None or maker.op_type != "DynamicQuantizeLinear":
        raise NotApplied(f"both inputs of {node.op_type} are weights")
    for reader in wiring.readers(maker.output[1]):
        others = [name for name in reader.input if name != maker.output[1]]
        value = wiring.value(others[0]) if reader.op_type == "Mul" and others else None
        if value is not None and _leads_to(wiring, node, reader.output[0]):
            return others[0], value
    raise NotApplied(f"the scale of a weight of {node.op_type} is not found")


def _leads_to(wiring: Wiring, node: onnx.NodeProto, scales: str) -> bool:
    """Tell whether this product of scales is the one by which ``node`` is scaled back."""
    here = node.output[0]
    for _ in range(3):
        reader = wiring.only_reader(here)
        if reader.op_type == "Mul":
            return scales in reader.input
        here = reader.output[0]
    return False


def _scales(
    wiring: Wiring, scaled: onnx.NodeProto, cast: onnx.NodeProto, wanted: tuple[str, str]
) -> bool:
    other = [name for name in scaled.input if name != cast.output[0]]
    return bool(other) and _is_product(wiring, other[0], wanted)


def _is_product(wiring: Wiring, name: str, wanted: tuple[str, str]) -> bool:
    maker = wiring.maker(name)
    return maker is not None and maker.op_type == "Mul" and set(maker.input) == set(wanted)


def _bias(wiring: Wiring, add: onnx.NodeProto, product: str) -> tuple[str, str]:
    """Return the float bias that was rounded, shaped as it is added, and what it is divided by."""
    other: str = next(name for name in add.input if name != product)
    path = []
    for kind in ("Reshape", "Cast", "Floor", "Div"):
        maker = wiring.maker(other)
        if maker is not None and maker.op_type == kind:
            path.append(maker)
            other = maker.input[0]
    if not path or path[-1].op_type != "Div":
        raise NotApplied("a bias is added to integers in a way that is not known here")
    if path[0].op_type != "Reshape":
        return other, path[-1].input[1]
    name = wiring.fresh(f"{other}_shaped")
    wiring.prepend(onnx.helper.make_node("Reshape", [other, path[0].input[1]], [name], name=name))
    return name, path[-1].input[1]


def _restore_lstm(wiring: Wiring, node: onnx.NodeProto) -> None:
    inputs = [*node.input, *[""] * (12 - len(node.input))]
    weights = []
    for place, scale, zero in ((1, 8, 9), (2, 10, 11)):
        quantized, factor = wiring.value(inputs[place]), wiring.value(inputs[scale])
        if quantized is None or factor is None:
            raise NotApplied("the weights of a DynamicQuantizeLSTM are not constant")
        shift = wiring.value(inputs[zero])
        ones = (-1,) + (1,) * (quantized.ndim - 1) if factor.ndim == 1 else (len(factor), 1, -1)
        restored = quantized.astype(np.float32)
        restored = restored - (0 if shift is None else shift.astype(np.float32).reshape(ones))
        restored = restored * factor.reshape(ones)
        # ONNX's own LSTM wants them the other way round.
        weights.append(
            wiring.constant(
                f"{inputs[place]}_float", restored.transpose(0, 2, 1).astype(np.float32)
            )
        )
    given = [inputs[0], *weights, *inputs[3:8]]
    while given and not given[-1]:
        given.pop()
    made = onnx.helper.make_node("LSTM", given, list(node.output), name=node.name)
    made.attribute.extend(node.attribute)
    wiring.replace(node, [made])


def _along(values: Array | None, weight: Array, axis: int | None) -> Array:
    """Shape a scale or zero point, of the whole or of each channel, so that it fits a weight."""
    if values is None:
        return np.zeros((), np.float32)
    shape = [1] * weight.ndim
    if values.size > 1 and axis is not None:
        shape[axis] = values.size
    return values.astype(np.float32).reshape(shape)
