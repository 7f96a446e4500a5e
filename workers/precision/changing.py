"""The two ways to another precision: cast to half, and quantize to int8."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx

from enginefarm.errors import FarmError
from enginefarm.precision import PrecisionKind
from enginefarm.precision_report import KeptNode, PrecisionRecipe
from enginefarm.sensitivity_report import SensitivityReport
from workers.measurement.inputs import Feeds
from workers.precision import refusals
from workers.precision.casting import plan_cast
from workers.precision.keeping import Ground, keep_what_must
from workers.precision.quantizing import (
    LEAST_OPSET,
    already_quantized,
    declare_as,
    excluded,
    quantize,
    quantized_nodes,
)
from workers.precision.running import likeness, opened, outputs_of
from workers.precision.sensitivity import Bench, sensitivity
from workers.precision.tidying import constants_as_weights, named
from workers.precision.writing import written
from workers.repair.branches import inner_graphs

BF16_OPSET = 22
"""The first in which all operators that matter take bfloat16."""
_SAME = 1 - 1e-9


@dataclass
class Work:
    """What a change is made with. ``few``: samples that may be held; ``every``: all, streaming."""

    model: onnx.ModelProto
    recipe: PrecisionRecipe
    few: Sequence[Feeds]
    every: Iterable[Feeds]
    folder: Path
    alive: Callable[[str, str], None]


@dataclass
class Changed:
    """A model in another precision. ``rounded``: the same in fp32, where no CPU runs it truly."""

    model: onnx.ModelProto
    rounded: onnx.ModelProto | None
    nodes: int
    changed: int
    kept: list[KeptNode]
    sensitivity: SensitivityReport | str | None = None


def require_plain(model: onnx.ModelProto) -> None:
    """Refuse a model that is quantized as it comes."""
    nodes = already_quantized(model.graph)
    if nodes:
        raise refusals.already_quantized(nodes)


def cast(work: Work) -> Changed:
    """Return the model in half precision, but for what must stay in fp32."""
    recipe = work.recipe
    count, model = _computing(work.model.graph), work.model
    if recipe.kind is PrecisionKind.BF16:
        model = raised(work, BF16_OPSET)
    named(model.graph)
    with _told(recipe.kind):
        plan = plan_cast(model, recipe.kind)
    names = set(excluded(model.graph, recipe.exclude))
    for place in plan.cast:
        node = plan.nodes[place]
        if node.name in names:
            plan.kept[place] = "excluded by the build"
        elif recipe.op_types and node.op_type not in recipe.op_types:
            plan.kept[place] = "not one of the operators that the build names"
    keep_what_must(plan, Ground(work.few, work.every, work.folder, work.alive))
    if not plan.cast:
        why = next(iter(plan.kept.values()), "it has no fp32 operators")
        raise refusals.nothing_changed(recipe.kind, f"Every node stays as it is: {why}.")
    kept = [
        KeptNode(node=plan.nodes[place].name, operator=plan.nodes[place].op_type, why=why)
        for place, why in sorted(plan.kept.items())
    ]
    return Changed(written(plan), written(plan, rounded=True), count, len(plan.cast), kept)


def quantized(work: Work) -> Changed:
    """Return the model with Q/DQ nodes around what computes in int8."""
    recipe, model = work.recipe, raised(work, LEAST_OPSET)
    constants_as_weights(model.graph)
    named(model.graph)

    def alive(count: int) -> None:
        work.alive("calibrating", f"{count} samples")

    names = set(excluded(model.graph, recipe.exclude))
    able = {row.name for row in model.graph.node if row.op_type in recipe.op_types}
    if not able - names:
        raise refusals.nothing_to_quantize(recipe, _in_branches(model.graph, recipe.op_types))
    with _told(recipe.kind):
        made = quantize(model, recipe, work.every, work.folder, alive)
    into = quantized_nodes(model.graph, made.graph, recipe.op_types)
    if not into:
        raise refusals.nothing_changed(
            recipe.kind, f"The tool quantized none of {len(able)} nodes."
        )
    kept = [
        KeptNode(
            node=node.name,
            operator=node.op_type,
            why="excluded by the build" if node.name in names else "the tool left it as it is",
        )
        for node in model.graph.node
        if node.name in able - into
    ]
    cost = None
    if recipe.sensitivity is not None:
        bench = Bench(model, made, work.few, work.every, work.folder, work.alive)
        cost = sensitivity(bench, sorted(into), recipe.sensitivity)
    return Changed(made, None, _computing(model.graph), len(into), kept, cost)


def _in_branches(graph: onnx.GraphProto, op_types: Sequence[str]) -> int:
    """Count the nodes that would be quantized if they did not stand inside a branch or a loop."""
    inner = [each for node in graph.node for each in inner_graphs(node)]
    return sum(
        sum(node.op_type in op_types for node in each.node) + _in_branches(each, op_types)
        for each in inner
    )


def _computing(graph: onnx.GraphProto) -> int:
    return sum(node.op_type != "Constant" for node in graph.node)


def raised(work: Work, least: int) -> onnx.ModelProto:
    """Return the model in a newer opset if it needs one, and if it then gives what it gave."""
    version = next((row.version for row in work.model.opset_import if not row.domain), least)
    if version >= least:
        return work.model
    try:
        newer: onnx.ModelProto = onnx.version_converter.convert_version(work.model, least)
        declare_as(work.model.graph.input, newer.graph.input)
        declare_as(work.model.graph.output, newer.graph.output)
        before, after = (opened(each, work.folder) for each in (work.model, newer))
        same = all(
            likeness(outputs_of(before, row), outputs_of(after, row)) >= _SAME for row in work.few
        )
    except Exception:  # noqa: BLE001 - the converter raises what it likes; then it is as it was
        return work.model
    return newer if same else work.model


@contextmanager
def _told(kind: PrecisionKind) -> Iterator[None]:
    """Say of whatever a tool raises that it failed; a full disk or memory is no such thing."""
    try:
        yield
    except (FarmError, OSError, MemoryError):
        raise
    except Exception as error:
        raise refusals.tool_failed(kind, f"{type(error).__name__}: {error}") from error
