"""Follow small whole numbers through a graph: exporters compute shapes with ordinary operators."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

from enginefarm.preflight.facts import NodeFacts, Number, TensorFacts
from enginefarm.preflight.shapes import MAX_FOLLOWED, Known

_Value = tuple[Number, ...] | None
_INT_TYPES = {2, 3, 4, 5, 6, 7, 9, 12, 13}  # TensorProto.DataType
_INPUTS_SINCE = 10


def _divide(one: Number, other: Number) -> Number:
    if isinstance(one, float) or isinstance(other, float):
        return one / other
    return int(one / other) if abs(one) < 1 << 52 else one // other


_PAIRS: dict[str, Callable[[Number, Number], Number]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": _divide,
    "Max": max,
    "Min": min,
    "Equal": operator.eq,
    "Greater": operator.gt,
    "Less": operator.lt,
    "GreaterOrEqual": operator.ge,
    "LessOrEqual": operator.le,
    "And": lambda one, other: bool(one) and bool(other),
    "Or": lambda one, other: bool(one) or bool(other),
}
_SINGLE: dict[str, Callable[[Number], Number]] = {
    "Neg": operator.neg,
    "Abs": abs,
    "Floor": lambda value: float(math.floor(value)),
    "Ceil": lambda value: float(math.ceil(value)),
    "Not": lambda value: not value,
}
_PASSED = {"Identity", "Squeeze", "Unsqueeze", "Reshape", "Flatten"}


def value_of(node: NodeFacts, known: Known) -> _Value:
    """Return the values that a node's first output certainly has, or None."""
    if node.domain or not node.outputs:
        return None
    try:
        return _value_of(node, known)
    except (ArithmeticError, IndexError, ValueError):
        return None


def _value_of(node: NodeFacts, known: Known) -> _Value:
    if node.op in _PAIRS or node.op == "Where":
        return _elementwise(node, known)
    if node.op in _MADE:
        return _MADE[node.op](node, known)
    first = known.values.get(node.given(0))
    if first is None or node.op in _PASSED:
        return first if node.op in _PASSED else None
    if node.op in _SINGLE:
        return tuple(_SINGLE[node.op](value) for value in first)
    follow = _FOLLOWED.get(node.op)
    return follow(node, known, first) if follow is not None else None


def _sizes(node: NodeFacts, known: Known) -> _Value:
    shape = known.shape(node.given(0))
    if shape is None:
        return None
    if node.op == "Size":
        return (math.prod(shape),)
    return shape[node.whole("start", 0) : node.whole("end", len(shape))]


def _casts(node: NodeFacts, _known: Known, first: tuple[Number, ...]) -> _Value:
    goal = node.whole("to", 0)
    return tuple(_cast(value, goal) for value in first)


def _product(node: NodeFacts, known: Known, first: tuple[Number, ...]) -> _Value:
    """Reduce a vector, all of it."""
    whole = len(known.shapes.get(node.given(0), (0, 0))) <= 1
    return (math.prod(first),) if whole else None


def _cast(value: Number, goal: int) -> Number:
    if goal == 9:  # noqa: PLR2004 - bool
        return bool(value)
    return int(value) if goal in _INT_TYPES else float(value)


def _elementwise(node: NodeFacts, known: Known) -> _Value:
    parts = [known.values.get(name) for name in node.inputs]
    rows = [part for part in parts if part is not None]
    if len(rows) < len(parts) or not rows:
        return None
    # Only vectors and scalars: for more the elements would have to be laid out.
    if any(len(known.shapes.get(name, ())) > 1 for name in node.inputs):
        return None
    count = max(map(len, rows))
    if any(len(row) not in {1, count} for row in rows):
        return None
    wide = [row if len(row) == count else row * count for row in rows]
    if node.op == "Where":
        return tuple(yes if test else no for test, yes, no in zip(*wide, strict=True))
    found: Sequence[Number] = wide[0]
    for row in wide[1:]:
        found = [_PAIRS[node.op](*pair) for pair in zip(found, row, strict=True)]
    return tuple(found)


def _filled(node: NodeFacts, known: Known) -> _Value:
    goal = known.wholes(node.given(0))
    value = node.attributes.get("value")
    fill = value.values if isinstance(value, TensorFacts) else (0.0,)
    if goal is None or not fill or math.prod(goal) > MAX_FOLLOWED:
        return None
    return fill[:1] * math.prod(goal)


def _counted(node: NodeFacts, known: Known) -> _Value:
    parts = [known.wholes(node.given(number)) for number in range(3)]
    if any(not part for part in parts):
        return None
    first, last, step = (part[0] for part in parts if part)
    found = range(first, last, step)
    return tuple(found) if len(found) <= MAX_FOLLOWED else None


def _joined(node: NodeFacts, known: Known) -> _Value:
    if any(len(known.shapes.get(name, (0, 0))) != 1 for name in node.inputs):
        return None
    parts = [known.values.get(name) for name in node.inputs]
    found: list[Number] = []
    for part in parts:
        if part is None:
            return None
        found += part
    return tuple(found)


def _picked(node: NodeFacts, known: Known, first: tuple[Number, ...]) -> _Value:
    picks = known.wholes(node.given(1))
    if picks is None or len(known.shapes.get(node.given(0), ())) != 1:
        return None
    return tuple(first[pick] for pick in picks)


def _sliced(node: NodeFacts, known: Known, first: tuple[Number, ...]) -> _Value:
    """Cut rows out, along the first axis."""
    shape = known.shapes.get(node.given(0), ())
    if known.opset < _INPUTS_SINCE:
        starts, ends, axes, steps = (
            node.wholes(name) for name in ("starts", "ends", "axes", "steps")
        )
    else:
        starts, ends, axes, steps = (known.wholes(node.given(number)) for number in (1, 2, 3, 4))
    unknown = (node.given(3) and axes is None) or (node.given(4) and steps is None)
    if not shape or not starts or not ends or len(starts) > 1 or unknown:
        return None
    if (axes or (0,))[0] % len(shape) != 0:
        return None
    step = steps[0] if steps else 1
    end = None if step < 0 and ends[0] <= -(2**31) else ends[0]
    wide = math.prod(shape[1:])
    rows = range(shape[0])[starts[0] : end : step]
    return tuple(value for row in rows for value in first[row * wide : (row + 1) * wide])


def _turned(node: NodeFacts, known: Known, first: tuple[Number, ...]) -> _Value:
    """Transpose a matrix; a vector stays as it is."""
    shape = known.shapes.get(node.given(0), ())
    if len(shape) <= 1:
        return first
    if len(shape) != 2 or node.wholes("perm") not in {None, (1, 0)}:  # noqa: PLR2004 - a matrix
        return None
    high, wide = shape
    return tuple(first[row * wide + column] for column in range(wide) for row in range(high))


_MADE: dict[str, Callable[[NodeFacts, Known], _Value]] = {
    "Concat": _joined,
    "ConstantOfShape": _filled,
    "Range": _counted,
    "Shape": _sizes,
    "Size": _sizes,
}
_FOLLOWED: dict[str, Callable[[NodeFacts, Known, tuple[Number, ...]], _Value]] = {
    "Cast": _casts,
    "Gather": _picked,
    "ReduceProd": _product,
    "Slice": _sliced,
    "Transpose": _turned,
}
