"""Rewrite a graph so that its nodes compute in half precision, but for those that must not.

ONNX's own schemas decide which input of which operator may be half: the scales of a Resize may not,
whatever its data is. A node either computes in half or stays as it is; between the two stand casts.
The model's inputs and outputs keep their types. Nothing is clamped: a constant that half cannot
hold keeps the nodes that read it in fp32.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from enginefarm.precision import PrecisionKind
from workers.backends.base import Array
from workers.precision.tidying import constants_as_weights

_STAY = frozenset(
    (
        *("Bernoulli", "Cast", "CastLike", "Celu", "DequantizeLinear", "DynamicQuantizeLinear"),
        *("EyeLike", "QuantizeLinear", "RandomNormalLike", "RandomUniformLike", "Range"),
    )
)
"""Operators whose numbers are types, or that backends have no half kernel for."""


@dataclass(frozen=True)
class Half:
    """A half type: its ONNX name and number, and the values that it holds.

    ``smallest``: below it fewer than six of a value's bits are left.
    """

    name: str
    number: int
    largest: float
    smallest: float
    dtype: np.dtype[np.generic]

    def rounded(self, values: Array) -> Array:
        """Return values as the type holds them; what is too large becomes infinite."""
        with np.errstate(over="ignore"):
            return np.asarray(values, dtype=self.dtype)


HALVES = {
    PrecisionKind.FP16: Half(
        "tensor(float16)",
        TensorProto.FLOAT16,
        float(np.finfo(np.float16).max),
        64 * float(np.finfo(np.float16).smallest_subnormal),
        np.dtype(np.float16),
    ),
    PrecisionKind.BF16: Half(
        "tensor(bfloat16)",
        TensorProto.BFLOAT16,
        (2 - 2.0**-7) * 2.0**127,
        64 * 2.0**-133,
        np.dtype(ml_dtypes.bfloat16),
    ),
}


@dataclass
class Slots:
    """Which inputs and outputs of a node would be half, by their place."""

    inputs: list[int]
    outputs: list[int]


@dataclass
class Plan:
    """What of a model can be half, and what may not and why, by the node's place in the graph."""

    model: onnx.ModelProto
    half: Half
    slots: dict[int, Slots] = field(default_factory=dict)
    kept: dict[int, str] = field(default_factory=dict)

    @property
    def nodes(self) -> list[onnx.NodeProto]:
        """The nodes of the graph, in order."""
        return list(self.model.graph.node)

    @property
    def cast(self) -> list[int]:
        """The nodes that compute in half."""
        return [place for place in self.slots if place not in self.kept]


def plan_cast(model: onnx.ModelProto, kind: PrecisionKind) -> Plan:
    """Return what of a model can be half by its types alone.

    ``model`` is in memory, its external data too, and is changed: constants become initializers.
    """
    constants_as_weights(model.graph)
    plan = Plan(model, HALVES[kind])
    types = _types(model)
    versions = {_domain(row.domain): row.version for row in model.opset_import}
    for place, node in enumerate(model.graph.node):
        slots = _slots(node, types, versions, plan.half)
        if slots is not None:
            plan.slots[place] = slots
        elif _of_floats(node.input, types) and _of_floats(node.output, types):
            plan.kept[place] = f"{node.op_type} has no {plan.half.name[7:-1]} form here"
    return plan


def constants_beyond(plan: Plan) -> dict[int, str]:
    """Return the nodes that read a constant which half cannot hold, and why, by their place."""
    why: dict[str, str] = {}
    for row in plan.model.graph.initializer:
        if row.data_type == TensorProto.FLOAT:
            said = _unheld(numpy_helper.to_array(row), plan.half)
            if said is not None:
                why[row.name] = f"the constant {row.name} {said}"
    return {
        place: next(why[name] for name in plan.nodes[place].input if name in why)
        for place, slots in plan.slots.items()
        if any(plan.nodes[place].input[at] in why for at in slots.inputs)
    }


def _unheld(values: Array, half: Half) -> str | None:
    """Say what of a constant half cannot hold; None if it can all."""
    sizes = np.abs(values.astype(np.float64))
    if not sizes.size or np.isnan(sizes).any():
        return None
    if sizes.max() > half.largest:
        return f"reaches {sizes.max():.3g}, above {half.largest:.5g}"
    # Small weights among larger ones may become zero; where all are small, all their digits go.
    if 0 < sizes.max() < half.smallest:
        return f"is at most {sizes.max():.3g}, below {half.smallest:.3g}"
    return None


def _types(model: onnx.ModelProto) -> dict[str, int]:
    """Return the element types of all tensors, as far as ONNX can tell."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    inferred = onnx.shape_inference.infer_shapes(bare)
    graph = inferred.graph
    rows = [*graph.input, *graph.value_info, *graph.output]
    types = {row.name: row.type.tensor_type.elem_type for row in rows}
    return types | {row.name: row.data_type for row in graph.initializer}


def _slots(
    node: onnx.NodeProto, types: Mapping[str, int], versions: Mapping[str, int], half: Half
) -> Slots | None:
    if node.op_type in _STAY or any(row.HasField("g") or row.graphs for row in node.attribute):
        return None
    try:
        domain = _domain(node.domain)
        schema = onnx.defs.get_schema(node.op_type, versions.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return None
    able = {
        row.type_param_str
        for row in schema.type_constraints
        if half.name in row.allowed_type_strs and "tensor(float)" in row.allowed_type_strs
    }
    inputs = _able(node.input, schema.inputs, types, able)
    outputs = _able(node.output, schema.outputs, types, able)
    floats = [name for name in node.output if types.get(name, 0) == TensorProto.FLOAT]
    unknown = [name for name in node.output if name and not types.get(name)]
    if not inputs or unknown or len(outputs) != len(floats):
        return None
    return Slots(inputs, outputs)


def _of_floats(names: Iterable[str], types: Mapping[str, int]) -> bool:
    return any(types.get(name) == TensorProto.FLOAT for name in names)


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _able(
    names: Iterable[str],
    formals: Sequence[onnx.defs.OpSchema.FormalParameter],
    types: Mapping[str, int],
    able: set[str],
) -> list[int]:
    """Return the places at which a float tensor stands where a half one may stand."""
    found = []
    for place, name in enumerate(names):
        formal = formals[min(place, len(formals) - 1)] if formals else None
        if formal is not None and types.get(name) == TensorProto.FLOAT and formal.type_str in able:
            found.append(place)
    return found
