"""Which nodes ModelOpt is given to change, and which of them it has changed. Pure.

What it is known to get wrong is kept from it, with the reason: AWQ writes scales of the wrong shape
for a Gemm with a transposed weight, and int4 blocks must come out even.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx
from onnx import TensorProto

from enginefarm.precision import QUANTIZED_OPS, TYPES, CalibrationMethod, PrecisionKind
from enginefarm.precision_report import KeptNode, PrecisionRecipe
from workers.precision import refusals
from workers.precision.changing import Changed
from workers.precision.quantizing import excluded
from workers.precision.rounding import half_types, rounded

_BY_BUILD = "excluded by the build"
_BY_TOOL = "the tool left it as it is"
_NUMBERS = {
    PrecisionKind.INT8: TensorProto.INT8,
    PrecisionKind.FP8: TensorProto.FLOAT8E4M3FN,
    PrecisionKind.INT4: TensorProto.INT4,
}
_MATRIX = 2


@dataclass
class Choice:
    """What may be changed. ``able``: the nodes that the kind is for, by name.

    ``why``: why a node is kept from the tool. ``left``: operators that stay as they are.
    """

    able: set[str]
    why: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    nothing: str = ""

    @property
    def excluded(self) -> list[str]:
        """The names that the tool is told to leave out."""
        return sorted(self.why)


def chosen(graph: onnx.GraphProto, recipe: PrecisionRecipe) -> Choice:
    """Return what the tool may change of a graph whose nodes all have names."""
    by_build = dict.fromkeys(excluded(graph, recipe.exclude), _BY_BUILD)
    present = {node.op_type for node in graph.node}
    if recipe.method is None:
        left = sorted(present - set(recipe.op_types)) if recipe.op_types else []
        able = {node.name for node in graph.node if node.op_type not in left}
        return Choice(able, by_build, left, "It has no operator that is not excluded.")
    # An addition is quantized only where it ends a residual; that is for the tool to see.
    ops = [name for name in recipe.op_types or QUANTIZED_OPS if name != "Add"] or ["Add"]
    able = {row.name for row in graph.node if row.op_type in ops}
    why = by_build
    if recipe.kind is PrecisionKind.INT4:
        weights = {row.name: row for row in graph.initializer}
        able = {row.name for row in graph.node if row.name in able and _weight(row) in weights}
        why = dict(_unfit(graph, recipe, able)) | by_build
        why = dict(_shared(graph, able - set(why))) | why
    nothing = f"It has no {', '.join(ops)} that can be in {recipe.kind} and is not excluded."
    first = next((text for name, text in why.items() if name in able), None)
    return Choice(able, why, [], nothing if first is None else f"{nothing} {first[:200]}.")


def _weight(node: onnx.NodeProto) -> str:
    return str(node.input[1]) if len(node.input) > 1 else ""


def _unfit(
    graph: onnx.GraphProto, recipe: PrecisionRecipe, able: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield the nodes whose weights cannot be in int4 as they are, and why."""
    weights = {row.name: row for row in graph.initializer}
    block = recipe.block_size or 1
    for node in graph.node:
        if node.name not in able:
            continue
        shape = list(weights[_weight(node)].dims)
        turned = any(row.name == "transB" and row.i for row in node.attribute)
        if weights[_weight(node)].data_type != TensorProto.FLOAT or len(shape) != _MATRIX:
            yield node.name, f"its weight is no fp32 matrix, but {shape}"
        elif turned and recipe.method is not CalibrationMethod.RTN:
            yield node.name, "its weight is transposed, of which the tool's AWQ writes wrong scales"
        elif shape[0] % block:
            yield node.name, f"{shape[0]} rows of its weight are no whole blocks of {block}"


def _shared(graph: onnx.GraphProto, taken: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the nodes whose weight is read by one that stays as it is: int4 would reach it, too."""
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in set(node.input):
            readers.setdefault(name, []).append(node)
    for node in graph.node:
        others = [row.name for row in readers.get(_weight(node), ()) if row.name not in taken]
        if node.name in taken and others:
            yield node.name, f"its weight is read by {others[0][:80]}, too, which stays as it is"


def told_quantized(
    before: onnx.ModelProto, made: onnx.ModelProto, recipe: PrecisionRecipe, choice: Choice
) -> Changed:
    """Return a quantized model, with what of it is quantized and what is not."""
    into = quantized_names(before.graph, made.graph)
    if not into or not _has(made.graph, _NUMBERS[recipe.kind]):
        said = f"The tool put none of {len(choice.able)} nodes in {TYPES[recipe.kind]}."
        raise refusals.nothing_changed(recipe.kind, said)
    kept = [
        KeptNode(node=row.name, operator=row.op_type, why=choice.why.get(row.name, _BY_TOOL))
        for row in before.graph.node
        if row.name in choice.able - into
    ]
    return Changed(made, None, _computing(before.graph), len(into), kept)


def quantized_names(before: onnx.GraphProto, made: onnx.GraphProto) -> set[str]:
    """Return the names of the nodes of ``before`` that read what is quantized in ``made``."""
    loaded = {e for row in made.node if row.op_type == "DequantizeLinear" for e in row.output}
    names = {row.name for row in before.node}
    return {row.name for row in made.node if row.name in names and loaded & set(row.input)}


def _has(graph: onnx.GraphProto, number: int) -> bool:
    """Tell whether any constant is of a type: of Q/DQ nodes it is at least the zero point."""
    constants = [row.t for node in graph.node for row in node.attribute if row.HasField("t")]
    return any(row.data_type == number for row in (*graph.initializer, *constants))


def told_cast(
    before: onnx.ModelProto, made: onnx.ModelProto, recipe: PrecisionRecipe, choice: Choice
) -> Changed:
    """Return a model that is half, with what of it is, and the same in fp32 to be judged by."""
    halves = half_types(made, recipe.kind)
    names = {row.name: row for row in before.graph.node}
    nodes = [row for row in made.graph.node if row.name in names and row.op_type != "Cast"]
    into = {row.name for row in nodes if halves & {*row.input, *row.output}}
    if not into:
        raise refusals.nothing_changed(recipe.kind, "The tool left every node as it is.")
    kept = [
        KeptNode(node=row.name, operator=row.op_type, why=_why(row, choice))
        for row in nodes
        if row.name not in into and row.op_type != "Constant"
    ]
    return Changed(made, rounded(made, recipe.kind), _computing(before.graph), len(into), kept)


def _why(node: onnx.NodeProto, choice: Choice) -> str:
    if node.op_type in choice.left:
        return "not one of the operators that the build names"
    return choice.why.get(node.name, _BY_TOOL)


def _computing(graph: onnx.GraphProto) -> int:
    return sum(node.op_type != "Constant" for node in graph.node)
