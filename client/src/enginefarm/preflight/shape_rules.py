"""How ONNX's operators turn shapes into shapes, as a table of small rules. Pure.

What is not here is not followed. A rule gives None for an output of which it is not certain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from enginefarm.preflight import shape_windows
from enginefarm.preflight.facts import NodeFacts
from enginefarm.preflight.names import words
from enginefarm.preflight.shapes import (
    Known,
    MisfitError,
    Rule,
    Shape,
    at_axis,
    broadcast,
    shown,
)

_Found = Sequence[Shape | None]
_KEEP_SINCE = 13
_SAME = words(
    "Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization BitwiseNot Cast CastLike Ceil Celu "
    "Clip Cos Cosh CumSum DequantizeLinear Dropout Elu Erf Exp Floor Gelu GroupNormalization "
    "HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN "
    "LayerNormalization LeakyRelu Log LogSoftmax LpNormalization MeanVarianceNormalization Mish "
    "Neg Not PRelu QuantizeLinear RMSNormalization Reciprocal Relu Round ScatterElements "
    "ScatterND Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan Tanh "
    "ThresholdedRelu Trilu"
)
_TOGETHER = words(
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less "
    "LessOrEqual Max Mean Min Mod Mul Or Pow Sub Sum Where Xor"
)
_REDUCED = words(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
    "ReduceSum ReduceSumSquare"
)


def _same(node: NodeFacts, known: Known) -> _Found:
    return [known.shape(node.given(0))]


def _quantized(node: NodeFacts, known: Known) -> _Found:
    return [known.shape(node.given(0)), (), ()]


def _together(node: NodeFacts, known: Known) -> _Found:
    if known.opset < 7:  # noqa: PLR2004 - before, operands were matched by an attribute
        return []
    return [broadcast([known.shape(name) for name in node.inputs])]


def _matmul(node: NodeFacts, known: Known) -> _Found:
    left, right = known.shape(node.given(0)), known.shape(node.given(1))
    if left is None or right is None or not left or not right:
        return []
    rows, columns = left if len(left) > 1 else (1, *left), right if len(right) > 1 else (*right, 1)
    if rows[-1] != columns[-2]:
        raise MisfitError(f"{shown(left)} cannot be multiplied by {shown(right)}")
    batch = broadcast([rows[:-2], columns[:-2]]) or ()
    found = list(batch)
    found += [rows[-2]] if len(left) > 1 else []
    found += [columns[-1]] if len(right) > 1 else []
    return [tuple(found)]


def _gemm(node: NodeFacts, known: Known) -> _Found:
    left, right = known.shape(node.given(0)), known.shape(node.given(1))
    if left is None or right is None or len(left) != 2 or len(right) != 2:  # noqa: PLR2004 - matrices
        return []
    rows = left[::-1] if node.whole("transA", 0) else left
    columns = right[::-1] if node.whole("transB", 0) else right
    if rows[1] != columns[0]:
        raise MisfitError(f"{shown(rows)} cannot be multiplied by {shown(columns)}")
    return [(rows[0], columns[1])]


def _transpose(node: NodeFacts, known: Known) -> _Found:
    shape = known.shape(node.given(0))
    if shape is None:
        return []
    order = node.wholes("perm") or tuple(reversed(range(len(shape))))
    if sorted(order) != list(range(len(shape))):
        raise MisfitError(f"the order {order} is not one of {shown(shape)}")
    return [tuple(shape[axis] for axis in order)]


def _reshape(node: NodeFacts, known: Known) -> _Found:
    shape = known.shape(node.given(0))
    goal = node.wholes("shape") if known.opset < 5 else known.wholes(node.given(1))  # noqa: PLR2004
    if shape is None or goal is None:
        return []
    keep_zero = node.whole("allowzero", 0)
    found = list(goal)
    for axis, size in enumerate(goal):
        if size == 0 and not keep_zero:
            if axis >= len(shape):
                raise MisfitError(f"{shown(shape)} has no dimension {axis} to keep")
            found[axis] = shape[axis]
    total, rest = math.prod(shape), math.prod(size for size in found if size != -1)
    if -1 in found:
        if rest == 0 or total % rest:
            raise MisfitError(f"{shown(shape)} does not divide into {shown(goal)}")
        found[found.index(-1)] = total // rest
    elif rest != total:
        raise MisfitError(
            f"{shown(shape)} has {total} elements, and {shown(goal)} is asked for: {rest}"
        )
    return [tuple(found)]


def _flatten(node: NodeFacts, known: Known) -> _Found:
    shape = known.shape(node.given(0))
    if shape is None:
        return []
    axis = node.whole("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    return [(math.prod(shape[:axis]), math.prod(shape[axis:]))]


def axes_of(node: NodeFacts, known: Known, *, since: int = _KEEP_SINCE) -> tuple[int, ...] | None:
    """Return the axes of an operator that had them as an attribute before it had an input."""
    if known.opset < since or not node.given(1):
        return node.wholes("axes")
    return known.wholes(node.given(1))


def _squeeze(node: NodeFacts, known: Known) -> _Found:
    shape = known.shape(node.given(0))
    axes = axes_of(node, known)
    if shape is None or (axes is None and len(node.inputs) > 1):
        return []
    if axes is None:
        return [tuple(size for size in shape if size != 1)]
    gone = {at_axis(axis, len(shape)) for axis in axes}
    wrong = [axis for axis in gone if shape[axis] != 1]
    if wrong:
        raise MisfitError(f"dimension {wrong[0]} of {shown(shape)} is not 1 and cannot be left out")
    return [tuple(size for axis, size in enumerate(shape) if axis not in gone)]


def _unsqueeze(node: NodeFacts, known: Known) -> _Found:
    shape, axes = known.shape(node.given(0)), axes_of(node, known)
    if shape is None or axes is None:
        return []
    rank = len(shape) + len(axes)
    new = {at_axis(axis, rank) for axis in axes}
    rest = iter(shape)
    return [tuple(1 if axis in new else next(rest, 1) for axis in range(rank))]


def _concat(node: NodeFacts, known: Known) -> _Found:
    shapes = [known.shape(name) for name in node.inputs]
    parts = [shape for shape in shapes if shape is not None]
    if len({len(part) for part in parts}) > 1:
        raise MisfitError(f"{', '.join(map(shown, parts))} differ in their dimensions")
    if not parts or len(parts) < len(shapes):
        return []
    axis = at_axis(node.whole("axis", 0), len(parts[0]))
    rests = {(*part[:axis], *part[axis + 1 :]) for part in parts}
    if len(rests) > 1:
        raise MisfitError(f"{', '.join(map(shown, parts))} cannot be joined along axis {axis}")
    return [(*parts[0][:axis], sum(part[axis] for part in parts), *parts[0][axis + 1 :])]


def _gather(node: NodeFacts, known: Known) -> _Found:
    shape, picks = known.shape(node.given(0)), known.shape(node.given(1))
    if shape is None or picks is None or not shape:
        return []
    axis = at_axis(node.whole("axis", 0), len(shape))
    return [(*shape[:axis], *picks, *shape[axis + 1 :])]


def _like_second(node: NodeFacts, known: Known) -> _Found:
    return [known.shape(node.given(1))]


def _expand(node: NodeFacts, known: Known) -> _Found:
    goal = known.wholes(node.given(1))
    return [broadcast([known.shape(node.given(0)), goal])] if goal is not None else []


def _tile(node: NodeFacts, known: Known) -> _Found:
    shape, times = known.shape(node.given(0)), known.wholes(node.given(1))
    if shape is None or times is None or len(times) != len(shape):
        return []
    return [tuple(size * count for size, count in zip(shape, times, strict=True))]


def _shape(node: NodeFacts, known: Known) -> _Found:
    shape = known.shape(node.given(0))
    if shape is None:
        return []
    return [(len(shape[node.whole("start", 0) : node.whole("end", len(shape))]),)]


def _from_value(node: NodeFacts, known: Known) -> _Found:
    goal = known.wholes(node.given(0))
    return [goal] if goal is not None else []


def _scalar(_node: NodeFacts, _known: Known) -> _Found:
    return [()]


def _range(node: NodeFacts, known: Known) -> _Found:
    first, last, step = (known.values.get(node.given(number)) for number in range(3))
    if not (first and last and step) or step[0] == 0:
        return []
    return [(max(math.ceil((last[0] - first[0]) / step[0]), 0),)]


def _reduce(node: NodeFacts, known: Known) -> _Found:
    shape = known.shape(node.given(0))
    since = _KEEP_SINCE if node.op == "ReduceSum" else 18
    axes = axes_of(node, known, since=since)
    if shape is None or (axes is None and node.given(1)):
        return []
    if not axes:
        if node.whole("noop_with_empty_axes", 0):
            return [shape]
        axes = tuple(range(len(shape)))
    gone = {at_axis(axis, len(shape)) for axis in axes}
    if node.whole("keepdims", 1):
        return [tuple(1 if axis in gone else size for axis, size in enumerate(shape))]
    return [tuple(size for axis, size in enumerate(shape) if axis not in gone)]


def _arg(node: NodeFacts, known: Known) -> _Found:
    shape = known.shape(node.given(0))
    if shape is None or not shape:
        return []
    axis = at_axis(node.whole("axis", 0), len(shape))
    kept = (1,) if node.whole("keepdims", 1) else ()
    return [(*shape[:axis], *kept, *shape[axis + 1 :])]


def _topk(node: NodeFacts, known: Known) -> _Found:
    shape = known.shape(node.given(0))
    count = known.wholes(node.given(1)) if len(node.inputs) > 1 else (node.whole("k", 0),)
    if shape is None or not count or not shape:
        return []
    axis = at_axis(node.whole("axis", -1), len(shape))
    if count[0] > shape[axis]:
        raise MisfitError(f"it asks for {count[0]} of {shape[axis]} elements")
    found = (*shape[:axis], count[0], *shape[axis + 1 :])
    return [found, found]


RULES: dict[str, Rule] = {
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(_TOGETHER, _together),
    **dict.fromkeys(_REDUCED, _reduce),
    "ArgMax": _arg,
    "ArgMin": _arg,
    "Concat": _concat,
    "ConstantOfShape": _from_value,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _like_second,
    "Gemm": _gemm,
    "DynamicQuantizeLinear": _quantized,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "Range": _range,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _scalar,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "TopK": _topk,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    **shape_windows.RULES,
}
