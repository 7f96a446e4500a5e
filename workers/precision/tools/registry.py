"""Which tool a name stands for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from enginefarm.errors import JobFailed
from enginefarm.precision import PrecisionTool
from enginefarm.precision_report import PrecisionRecipe
from enginefarm.state import Blame
from tasks.routing import APART
from workers.precision import refusals
from workers.precision.tools.base import Tool
from workers.precision.tools.modelopt import ModelOpt
from workers.precision.tools.own import Caster, OnnxRuntime


def open_tool(
    recipe: PrecisionRecipe, pythons: Mapping[str, Path], *, plugins: bool = False
) -> Tool:
    """Return the tool that a recipe names; ``pythons``: of tools with an environment of their own.

    Raises:
        JobFailed: this node does not have the tool (``backend_missing``), or another version of it
            than the key names (``backend_version_differs``), or the model needs ``plugins``, which
            a tool with an environment of its own is not given (``plugin_tool``).
    """
    if plugins and recipe.tool in APART:
        raise refusals.without_plugins(recipe)
    tool = _opened(recipe.tool, pythons)
    here, wanted = tool.version, recipe.tool_version
    if here != wanted:
        raise JobFailed(
            f"This node has {tool.name} {here}; the job asks for {wanted}.",
            blame=Blame.NODE,
            code="backend_version_differs",
            why="A job's key names the version, so another must not answer for it.",
            fix="Start the node again, so that it tells the farm what it has.",
        )
    return tool


def _opened(name: PrecisionTool, pythons: Mapping[str, Path]) -> Tool:
    if name is PrecisionTool.ENGINEFARM:
        return Caster()
    if name is PrecisionTool.ONNXRUNTIME:
        return OnnxRuntime()
    if str(name) not in pythons:
        raise JobFailed(
            f"This node has no environment with {name}.",
            blame=Blame.NODE,
            code="backend_missing",
            fix="Name its python in the node's settings, and start the node again.",
        )
    return ModelOpt(pythons[str(name)])
