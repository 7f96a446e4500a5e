"""What nobody can do now, in the words of a refusal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from enginefarm.compile_options import first_version, unknown_to
from enginefarm.errors import InvalidRequest, NotServed
from enginefarm.precision import Precision
from enginefarm.spec import BuildSpec
from enginefarm.state import Stage
from enginefarm.target import BACKEND_ARCHITECTURES, NOT_IN_THIS_VERSION, Target
from tasks.messages import NodeDescription
from tasks.routing import APART, PRECISION_TOOL, skus_of


def not_in_this_version(target: Target) -> NotServed:
    """Return the refusal of a backend that this version has no code for."""
    known = [name for name in BACKEND_ARCHITECTURES if name not in NOT_IN_THIS_VERSION]
    return NotServed(
        f"The backend {target.backend} is not in this version of the farm.",
        code="backend_not_in_version",
        why="Its name is kept for it, but no node of this version has code for it: to wait for one "
        "would not help.",
        fix=f"Choose one of {', '.join(known)}.",
        target=str(target),
    )


def nobody_compares(target: Target, version: str | None) -> NotServed:
    """Return the refusal of a comparison that no live node measures."""
    runtime = target.backend if version is None else f"{target.backend} {version}"
    return NotServed(
        f"Nobody can compare two engines for {target} now.",
        code="comparison_not_served",
        why=f"No live node of this version runs engines of {runtime} on {target.arch}.",
        fix="Start a node that does, set wait_for_node to the seconds you are willing to wait, or"
        " hold the reports together: enginefarm diff.",
        target=str(target),
    )


def nobody_repairs(target: Target) -> NotServed:
    """Return the refusal of a repair that no live node makes."""
    return NotServed(
        f"Nobody can repair a model for {target} now.",
        code="repair_not_served",
        why="A repair is asked for, and no live node that builds for the target takes the stage.",
        fix="Start a node of this version that takes the stage repair, or ask for no repair.",
        target=str(target),
    )


def nobody_makes(asked: Precision, stage: Stage) -> NotServed:
    """Return the refusal of a precision whose tool no live node has."""
    apart = asked.maker in APART
    tool = f"{PRECISION_TOOL.backend} and {asked.maker}" if apart else PRECISION_TOOL.backend
    return NotServed(
        f"Nobody can make a model in {asked.kind} now.",
        code="precision_not_served",
        why=f"A precision is asked for, and no live node with {tool} takes the stage {stage}.",
        fix=f"Start a node of this version that takes the stage {stage}"
        + (f" and has an environment with {asked.maker} (`make {asked.maker}`)" if apart else "")
        + ", set wait_for_node, or build the model as it is.",
        stage=str(stage),
    )


def not_served(target: Target, nodes: Sequence[NodeDescription]) -> NotServed:
    """Return the refusal of a target that no live node builds for."""
    present = sorted({row.name for node in nodes for row in node.backends})
    missing, others = _missing(target, nodes, present), other_skus(target, nodes)
    here = f"; live nodes build {', '.join(others)}" if others else ""
    choice = f"Choose {' or '.join(others)}" if others else "Choose a target that GET /v1/targets"
    context: dict[str, Any] = {"other_targets": others} if others else {}
    return NotServed(
        f"Nobody can build {target} now.",
        why=f"{missing[0].upper()}{missing[1:]}; live backends: {', '.join(present) or 'none'}"
        f"{here}.",
        fix=f"{choice}{'' if others else ' shows as served'}, start a node that has it, or "
        "set wait_for_node to the seconds you are willing to wait.",
        target=str(target),
        missing=missing,
        **context,
    )


def _missing(target: Target, nodes: Sequence[NodeDescription], present: Sequence[str]) -> str:
    if target.backend not in present:
        return f"no live node has the backend {target.backend}"
    able = [node for node in nodes if _builds(node, target.plain)]
    where = " and ".join(target.archs)
    if not able:
        return f"no live node's {target.backend} builds for {where}"
    if target.sku is not None and not any(target.sku in skus_of(row, target.arch) for row in able):
        return f"no live node that builds {target.plain} has a GPU {target.sku}"
    return f"no live node that builds {target.plain} is of a version that reads {target}"


def _builds(node: NodeDescription, target: Target) -> bool:
    return any(
        row.name == target.backend and set(row.builds) >= set(target.archs) for row in node.backends
    )


def other_skus(target: Target, nodes: Sequence[NodeDescription]) -> list[str]:
    """Return the targets of other SKUs, where a SKU is named, that live nodes build for."""
    found = {
        target.model_copy(update={"sku": sku})
        for node in nodes
        if target.sku is not None and node.reads_refined_targets and _builds(node, target.plain)
        for sku in skus_of(node, target.arch)
    }
    return sorted(map(str, found))


def refuse_unknown_options(spec: BuildSpec, target: Target, version: str) -> None:
    """Refuse an option that the version which would build has not yet.

    Raises:
        InvalidRequest: code ``option_not_in_version``.
    """
    for name in unknown_to(target.backend, version, spec.options.compile):
        since = first_version(target.backend, name)
        raise InvalidRequest(
            f"{target.backend} {version} has no options.compile.{name}.",
            code="option_not_in_version",
            why=f"It came with {since}, and no live node that builds {target} has as new a one.",
            fix=f"Leave it out, or bring a node to {target.backend} {since} or newer.",
            target=str(target),
        )
