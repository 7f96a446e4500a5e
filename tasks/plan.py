"""Which stages a target goes through, and who could run them. Pure.

A new stage is added here and nowhere else. One that writes a model hands it on to the next: see
``tasks.recipe.Made``. A build has ``cast`` or ``calibrate`` only if it asks for a precision;
whoever has their tool can run them, whatever the target is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from enginefarm.compile_options import first_version, unknown_to
from enginefarm.errors import InvalidRequest, NotServed
from enginefarm.precision import Precision, PrecisionTool
from enginefarm.spec import BuildSpec, Gate, Metric, RepairMode, Unmeasured
from enginefarm.state import PRECISION_STAGES, Stage
from enginefarm.target import BACKEND_ARCHITECTURES, NOT_IN_THIS_VERSION, Target
from tasks.messages import NodeDescription
from tasks.routing import APART, PRECISION_TOOL, serves

_UNDECIDED = "decided when a node has come that builds for the target"
_ONLY_CHECKED = "not built: only a check was asked for"
_MEASURED_AT_COMPILE = frozenset({Metric.ENGINE_BYTES})


@dataclass(frozen=True)
class LiveNode:
    """A node that takes work."""

    name: str
    description: NodeDescription


@dataclass(frozen=True)
class TargetPlan:
    """How one target will be built.

    ``version`` is None while no live node serves the target: then all stages are planned, and
    planned again when a node has come. ``tool_version`` is that of the tool that writes the model
    in the precision that is asked for. ``reason`` says why nothing is measured.
    """

    target: Target
    version: str | None
    stages: tuple[Stage, ...]
    measured: bool
    reason: str | None
    tool_version: str | None = None

    def version_of(self, stage: Stage) -> str | None:
        """Return the version that a stage's key names."""
        return self.tool_version if stage in PRECISION_STAGES else self.version


def plan_target(spec: BuildSpec, target: Target, nodes: Sequence[LiveNode]) -> TargetPlan:
    """Decide the stages of a target from what the live nodes can do.

    Raises:
        NotServed: nobody can build it and the person does not want to wait, or waiting could not
            help (code ``backend_not_in_version``).
        NotServed: nobody has the tool for the precision (code ``precision_not_served``).
        InvalidRequest: a gate looks at what nobody can measure (code ``gate_unmeasurable``), or the
            version that is there has no such option yet (code ``option_not_in_version``).
    """
    version = newest_version(nodes, target)
    stages = _stages(spec, target, nodes, version)
    tool = newest_tool(nodes, spec.precision)
    if version is None and target.backend in NOT_IN_THIS_VERSION:
        raise _not_in_this_version(target)
    if spec.precision.stage is not None and tool is None and version is not None:
        if spec.wait_for_node == 0:
            raise _nobody_makes(spec.precision, spec.precision.stage)
        version = None
    if version is None:
        if spec.wait_for_node == 0:
            raise _not_served(target, nodes)
        return TargetPlan(target, None, stages, measured=False, reason=_UNDECIDED)
    _refuse_unknown_options(spec, target, version)
    if Stage.BENCHMARK not in stages:
        return TargetPlan(
            target, version, stages, measured=False, reason=_ONLY_CHECKED, tool_version=tool
        )
    if able(nodes, Stage.BENCHMARK, target, version) or waits_for_measure(spec, target):
        return TargetPlan(target, version, stages, measured=True, reason=None, tool_version=tool)
    reason = unmeasured_reason(nodes, target)
    _refuse_unmeasurable(spec.gates, target, reason)
    stages = _without(Stage.BENCHMARK, stages)
    return TargetPlan(target, version, stages, measured=False, reason=reason, tool_version=tool)


def _stages(
    spec: BuildSpec, target: Target, nodes: Sequence[LiveNode], version: str | None
) -> tuple[Stage, ...]:
    stages = wanted_stages(spec)
    if spec.options.repair.mode is RepairMode.NONE:
        return _without(Stage.REPAIR, stages)
    if version is not None and not able(nodes, Stage.REPAIR, target, version):
        # Nodes of the version before know no repairs, and their builds go on as they did.
        if spec.options.repair.asks:
            raise _nobody_repairs(target)
        return _without(Stage.REPAIR, stages)
    return stages


def _without(left_out: Stage, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    return tuple(stage for stage in stages if stage is not left_out)


def wanted_stages(spec: BuildSpec) -> tuple[Stage, ...]:
    """Return the stages up to the last that is asked for."""
    skipped = {stage for stage in PRECISION_STAGES if stage is not spec.precision.stage}
    every = tuple(stage for stage in Stage if stage not in skipped)
    return every if spec.until is None else every[: every.index(spec.until) + 1]


def unmeasured_reason(nodes: Sequence[LiveNode], target: Target) -> str:
    """Say why an engine will not be run here, from what the live nodes can do."""
    having = [
        node.name
        for node in nodes
        for backend in node.description.backends
        if backend.name == target.backend and target.arch in backend.measures
    ]
    if having:
        return (
            f"not run: {', '.join(sorted(set(having)))} could run it on {target.arch}, but takes "
            "no benchmark jobs, or has another backend version"
        )
    return f"not run: no live node has a {target.arch} device with {target.backend}"


def able(
    nodes: Sequence[LiveNode],
    stage: Stage,
    target: Target,
    version: str | None,
    tool: PrecisionTool | None = None,
) -> list[str]:
    """Return the names of the nodes that can do a stage for a target."""
    return [node.name for node in nodes if serves(node.description, stage, target, version, tool)]


def newest_version(nodes: Sequence[LiveNode], target: Target) -> str | None:
    """Return the newest backend version that live nodes can check and compile with."""
    versions = {
        backend.version
        for node in nodes
        for backend in node.description.backends
        if backend.name == target.backend
        and target.arch in backend.builds
        and {Stage.CHECK, Stage.COMPILE} <= set(node.description.stages)
    }
    return max(versions, key=_version_order, default=None)


def served_targets(nodes: Sequence[LiveNode]) -> list[Target]:
    """Return the targets that live nodes check and compile for, in order."""
    return [
        Target(backend=backend, arch=arch)
        for backend, archs in BACKEND_ARCHITECTURES.items()
        for arch in archs
        if newest_version(nodes, Target(backend=backend, arch=arch)) is not None
    ]


def newest_tool(nodes: Sequence[LiveNode], asked: Precision) -> str | None:
    """Return the newest version of its tool that live nodes can make a precision with."""
    if asked.stage is None:
        return None
    versions = {
        backend.version
        for node in nodes
        for backend in node.description.backends
        if backend.name == (asked.maker if asked.maker in APART else PRECISION_TOOL.backend)
        and serves(node.description, asked.stage, PRECISION_TOOL, backend.version, asked.maker)
    }
    return max(versions, key=_version_order, default=None)


def _version_order(version: str) -> tuple[tuple[int, str], ...]:
    parts = version.replace("-", ".").replace("+", ".").split(".")
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)


def waits_for_measure(spec: BuildSpec, target: Target) -> bool:
    """Tell whether a gate asks the build to wait for a node that can measure, and for a while."""
    return spec.wait_for_node > 0 and any(
        gate.if_unmeasured is Unmeasured.WAIT for gate in spec.gates if _needs_measure(gate, target)
    )


def _needs_measure(gate: Gate, target: Target) -> bool:
    applies = gate.target is None or gate.target == target
    return applies and gate.metric not in _MEASURED_AT_COMPILE


def _refuse_unknown_options(spec: BuildSpec, target: Target, version: str) -> None:
    for name in unknown_to(target.backend, version, spec.options.compile):
        since = first_version(target.backend, name)
        raise InvalidRequest(
            f"{target.backend} {version} has no options.compile.{name}.",
            code="option_not_in_version",
            why=f"It came with {since}, and no live node that builds {target} has as new a one.",
            fix=f"Leave it out, or bring a node to {target.backend} {since} or newer.",
            target=str(target),
        )


def _refuse_unmeasurable(gates: Sequence[Gate], target: Target, reason: str) -> None:
    for gate in gates:
        if _needs_measure(gate, target):
            raise InvalidRequest(
                f"The gate on {gate.metric} cannot be judged for {target}.",
                code="gate_unmeasurable",
                why=f"{_sentence(reason.removeprefix('not run: '))}.",
                fix="Give the gate a target that is measured, or if_unmeasured: wait together "
                "with wait_for_node.",
                target=str(target),
                metric=str(gate.metric),
            )


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def _not_in_this_version(target: Target) -> NotServed:
    known = [name for name in BACKEND_ARCHITECTURES if name not in NOT_IN_THIS_VERSION]
    return NotServed(
        f"The backend {target.backend} is not in this version of the farm.",
        code="backend_not_in_version",
        why="Its name is kept for it, but no node of this version has code for it: to wait for one "
        "would not help.",
        fix=f"Choose one of {', '.join(known)}.",
        target=str(target),
    )


def _nobody_repairs(target: Target) -> NotServed:
    return NotServed(
        f"Nobody can repair a model for {target} now.",
        code="repair_not_served",
        why="A repair is asked for, and no live node that builds for the target takes the stage.",
        fix="Start a node of this version that takes the stage repair, or ask for no repair.",
        target=str(target),
    )


def _nobody_makes(asked: Precision, stage: Stage) -> NotServed:
    apart = asked.maker in APART
    tool = f"{PRECISION_TOOL.backend} and {asked.maker}" if apart else PRECISION_TOOL.backend
    return NotServed(
        f"Nobody can {stage} a model now.",
        code="precision_not_served",
        why=f"A precision is asked for, and no live node with {tool} takes the stage {stage}.",
        fix=f"Start a node of this version that takes the stage {stage}"
        + (f" and has an environment with {asked.maker}" if apart else "")
        + ", set wait_for_node, or build the model as it is.",
        stage=str(stage),
    )


def _not_served(target: Target, nodes: Sequence[LiveNode]) -> NotServed:
    present = sorted({b.name for node in nodes for b in node.description.backends})
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
