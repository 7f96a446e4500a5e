"""How many dimensions the inputs and attributes of an operator must have. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from enginefarm.preflight.facts import NodeFacts
from enginefarm.preflight.names import words
from enginefarm.preflight.shapes import Known, MisfitError, shown

_ANY = 1 << 16
_PLAIN_NORM = 9
"""Before this opset BatchNormalization could have a scale for each element."""

_RANKS: dict[str, dict[int, tuple[int, int]]] = {
    "AffineGrid": {1: (1, 1)},
    "BatchNormalization": dict.fromkeys(range(1, 5), (1, 1)),
    "Col2Im": {0: (3, 3), 1: (1, 1), 2: (1, 1)},
    "ConstantOfShape": {0: (1, 1)},
    "Conv": {0: (3, _ANY)},
    "ConvTranspose": {0: (3, _ANY)},
    "DepthToSpace": {0: (4, 4)},
    "Det": {0: (2, _ANY)},
    "Expand": {1: (1, 1)},
    "EyeLike": {0: (2, 2)},
    "GRU": {0: (3, 3), 1: (3, 3), 2: (3, 3)},
    "Gemm": {0: (2, 2), 1: (2, 2)},
    "LSTM": {0: (3, 3), 1: (3, 3), 2: (3, 3)},
    "LpPool": {0: (3, _ANY)},
    "MaxPool": {0: (3, _ANY)},
    "AveragePool": {0: (3, _ANY)},
    "OneHot": {0: (1, _ANY), 2: (1, 1)},
    "RNN": {0: (3, 3), 1: (3, 3), 2: (3, 3)},
    "Reshape": {1: (1, 1)},
    "ReverseSequence": {0: (2, _ANY), 1: (1, 1)},
    "SpaceToDepth": {0: (4, 4)},
    "Trilu": {0: (2, _ANY)},
}
_WEIGHTED = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "QLinearConv": 3}
"""Which input is the weight: it has as many dimensions as the first."""
_WINDOWS = words("AveragePool LpPool MaxPool MaxUnpool") | _WEIGHTED.keys()
_AXIS = words(
    "ArgMax ArgMin Concat CumSum Gather GatherElements LogSoftmax Softmax Split SplitToSequence "
    "TopK"
)
_AXIS_UP_TO_RANK = words("Flatten")


def require_ranks(node: NodeFacts, known: Known) -> None:
    """Hold what is certain of the shapes against what the operator takes.

    Raises:
        MisfitError: it cannot take them.
    """
    for look in (_ranks, _weights, _windows, _axis):
        for why in look(node, known):
            raise MisfitError(why)


def _ranks(node: NodeFacts, known: Known) -> Iterator[str]:
    if node.op == "BatchNormalization" and known.opset < _PLAIN_NORM:
        return
    for number, (least, most) in _RANKS.get(node.op, {}).items():
        shape = known.shape(node.given(number)) if node.given(number) else None
        if shape is not None and not least <= len(shape) <= most:
            many = str(least) if least == most else f"at least {least}"
            yield f"input {number + 1} is {shown(shape)} and must have {many} dimensions"


def _weights(node: NodeFacts, known: Known) -> Iterator[str]:
    number = _WEIGHTED.get(node.op)
    if number is None or not node.given(number):
        return
    shape, weight = known.shape(node.given(0)), known.shape(node.given(number))
    if shape is not None and weight is not None and len(shape) != len(weight):
        yield f"{shown(shape)} and the weights {shown(weight)} differ in their dimensions"


def _windows(node: NodeFacts, known: Known) -> Iterator[str]:
    shape = known.shape(node.given(0)) if node.op in _WINDOWS else None
    if shape is None:
        return
    sides = len(shape) - 2
    for name, many in (("kernel_shape", 1), ("strides", 1), ("dilations", 1), ("pads", 2)):
        numbers = node.wholes(name)
        if numbers is None:
            continue
        if len(numbers) != many * sides:
            yield f"{name} has {len(numbers)} numbers and must have {many * sides}"
        elif min(numbers, default=1) < (0 if name == "pads" else 1) and (
            name != "pads" or node.op in _WEIGHTED
        ):
            yield f"{name} has the number {min(numbers)}"


def _axis(node: NodeFacts, known: Known) -> Iterator[str]:
    if node.op not in _AXIS | _AXIS_UP_TO_RANK or "axis" not in node.attributes:
        return
    shape, axis = known.shape(node.given(0)), node.whole("axis", 0)
    if shape is None:
        return
    most = len(shape) if node.op in _AXIS_UP_TO_RANK else len(shape) - 1
    if not -len(shape) <= axis <= max(most, 0):
        yield f"there is no axis {axis} in {len(shape)} dimensions"
