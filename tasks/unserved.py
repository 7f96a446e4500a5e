"""What nobody can do now, in the words of a refusal. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from enginefarm.errors import NotServed
from enginefarm.precision import Precision
from enginefarm.state import Stage
from enginefarm.target import BACKEND_ARCHITECTURES, NOT_IN_THIS_VERSION, Target
from tasks.routing import APART, PRECISION_TOOL


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


def not_served(target: Target, present: Sequence[str]) -> NotServed:
    """Return the refusal of a target that no live node builds for; they have these backends."""
    if target.backend not in present:
        missing = f"no live node has the backend {target.backend}"
    else:
        missing = f"no live node's {target.backend} builds for {target.arch}"
    return NotServed(
        f"Nobody can build {target} now.",
        why=f"{missing[0].upper()}{missing[1:]}; live backends: {', '.join(present) or 'none'}.",
        fix="Choose a target that GET /v1/targets shows as served, start a node that has it, or "
        "set wait_for_node to the seconds you are willing to wait.",
        target=str(target),
        missing=missing,
    )
