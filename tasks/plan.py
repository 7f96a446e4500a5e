"""Which stages a target goes through, and who could run them. Pure.

A new stage is added here and nowhere else. One that writes a model hands it on to the next: see
``tasks.recipe.Made``. A build has ``cast`` or ``calibrate`` only if it asks for a precision;
whoever has their tool can run them, whatever the target is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from enginefarm.compile_options import never_run
from enginefarm.errors import NotServed
from enginefarm.precision import Precision, PrecisionKind, PrecisionTool
from enginefarm.spec import BuildSpec, RepairMode, Unmeasured
from enginefarm.state import PRECISION_STAGES, Stage
from enginefarm.target import BACKEND_ARCHITECTURES, NOT_IN_THIS_VERSION, Target
from tasks.messages import NodeDescription
from tasks.plugin_rules import having, nobody_has
from tasks.routing import (
    APART,
    PRECISION_TOOL,
    arch_of_sku,
    measured_arch,
    queue_for,
    serves,
    skus_of,
)
from tasks.steps import Step, steps_of
from tasks.twin import Twin, twin_kind
from tasks.unmeasurable import needs_measure, refuse_unmeasurable
from tasks.unserved import (
    nobody_makes,
    nobody_repairs,
    not_in_this_version,
    not_served,
    refuse_unknown_options,
)
from tasks.versions import newest

_UNDECIDED = "decided when a node has come that builds for the target"
_ONLY_CHECKED = "not built: only a check was asked for"


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
    in the precision that is asked for. ``reason`` says why nothing is measured. ``twin`` is what
    the engine is measured against, where it is in another precision. ``skus`` are those that it is
    measured on, if any are named.
    """

    target: Target
    version: str | None
    stages: tuple[Stage, ...]
    measured: bool
    reason: str | None
    tool_version: str | None = None
    twin: Twin | None = None
    skus: tuple[str, ...] = ()

    @property
    def steps(self) -> list[Step]:
        """Every stage in its order: those of the twin before the benchmark, one for each SKU."""
        return steps_of(self.stages, self.twin, self.skus)

    def version_of(self, stage: Stage, twin: PrecisionKind | None = None) -> str | None:
        """Return the version that a stage's key names."""
        if stage not in PRECISION_STAGES:
            return self.version
        return self.twin.tool_version if twin and self.twin else self.tool_version


def plan_target(spec: BuildSpec, target: Target, nodes: Sequence[LiveNode]) -> TargetPlan:
    """Decide the stages of a target from what the live nodes can do.

    Raises:
        NotServed: nobody can build it and the person does not want to wait, or waiting could not
            help (code ``backend_not_in_version``).
        NotServed: nobody has the tool for the precision (code ``precision_not_served``), or the
            plugins (code ``plugin_not_served``).
        InvalidRequest: a gate looks at what nobody can measure (code ``gate_unmeasurable``), or the
            version that is there has no such option yet (code ``option_not_in_version``).
    """
    plugins, every = spec.options.plugins, nodes
    readers = _readers(having(nodes, Stage.CAST, target, plugins), target)
    nodes = having(nodes, Stage.CHECK, target, plugins)
    version = newest_version(nodes, target)
    stages = _stages(spec, target, nodes, version)
    tool = newest_tool(readers, spec.precision)
    if version is None and target.backend in NOT_IN_THIS_VERSION:
        raise not_in_this_version(target)
    if spec.precision.stage is not None and tool is None and version is not None:
        if spec.wait_for_node == 0:
            raise nobody_makes(spec.precision, spec.precision.stage)
        version = None
    if version is None:
        if spec.wait_for_node == 0:
            raise _nobody(spec, target, every)
        twin = _twin(spec, target, None)
        return TargetPlan(target, None, stages, measured=False, reason=_UNDECIDED, twin=twin)
    refuse_unknown_options(spec, target, version)
    if Stage.BENCHMARK not in stages:
        return TargetPlan(target, version, stages, False, _ONLY_CHECKED, tool)
    never, asked = never_run(target.backend, spec.options.compile), (target, version)
    if not never and (able(nodes, Stage.BENCHMARK, *asked) or waits_for_measure(spec, target)):
        return TargetPlan(target, version, stages, True, None, tool, _twin(spec, target, readers))
    reason = never or unmeasured_reason(nodes, target, having_all=bool(plugins))
    refuse_unmeasurable(spec, target, reason, _measured(spec, nodes))
    stages = _without(Stage.BENCHMARK, stages)
    return TargetPlan(target, version, stages, measured=False, reason=reason, tool_version=tool)


def _measured(spec: BuildSpec, nodes: Sequence[LiveNode]) -> list[Target]:
    """Return those of a build's targets that live nodes measure now."""
    return [
        target
        for target in spec.targets
        if able(nodes, Stage.BENCHMARK, target, newest_version(nodes, target))
    ]


def _nobody(spec: BuildSpec, target: Target, nodes: Sequence[LiveNode]) -> NotServed:
    if spec.options.plugins and newest_version(nodes, target) is not None:
        return nobody_has(target, spec.options.plugins, nodes)
    return not_served(target, [node.description for node in nodes])


def _readers(nodes: Sequence[LiveNode], target: Target) -> Sequence[LiveNode]:
    """Return the nodes that read a target: what makes its precision needs nothing else of it."""
    refined = target.refined
    return [node for node in nodes if not refined or node.description.reads_refined_targets]


def _twin(spec: BuildSpec, target: Target, nodes: Sequence[LiveNode] | None) -> Twin | None:
    """Decide the twin; while nobody is there (None) it is the one that somebody may make."""
    if spec.precision.stage is None:
        return None
    kind = twin_kind(spec.precision.kind, target)
    if kind is PrecisionKind.AS_IS or nodes is None:
        return Twin(kind)
    tool = newest_tool(nodes, Precision(kind=kind))
    return Twin(kind, tool) if tool is not None else Twin(PrecisionKind.AS_IS)


def _stages(
    spec: BuildSpec, target: Target, nodes: Sequence[LiveNode], version: str | None
) -> tuple[Stage, ...]:
    stages = wanted_stages(spec)
    if spec.options.repair.mode is RepairMode.NONE:
        return _without(Stage.REPAIR, stages)
    if version is not None and not able(nodes, Stage.REPAIR, target, version):
        # Nodes of the version before know no repairs, and their builds go on as they did.
        if spec.options.repair.asks:
            raise nobody_repairs(target)
        return _without(Stage.REPAIR, stages)
    return stages


def _without(left_out: Stage, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    return tuple(stage for stage in stages if stage is not left_out)


def wanted_stages(spec: BuildSpec) -> tuple[Stage, ...]:
    """Return the stages up to the last that is asked for."""
    skipped = {stage for stage in PRECISION_STAGES if stage is not spec.precision.stage}
    every = tuple(stage for stage in Stage if stage not in skipped)
    return every if spec.until is None else every[: every.index(spec.until) + 1]


def unmeasured_reason(
    nodes: Sequence[LiveNode], target: Target, *, having_all: bool = False
) -> str:
    """Say why an engine will not be run here, from what the live nodes can do."""
    having = {
        node.name
        for node in nodes
        for backend in node.description.backends
        for arch in target.archs
        if backend.name == target.backend
        and arch in backend.measures
        and (target.sku is None or target.sku in skus_of(node.description, arch))
    }
    where = " or ".join(target.archs)
    if having:
        return (
            f"not run: {', '.join(sorted(having))} could run it on {where}, but takes "
            "no benchmark jobs, or has another backend version"
        )
    sku = f" {target.sku}" if target.sku else ""
    all_ = " and the plugins" if having_all else ""
    return f"not run: no live node has a {where} device{sku} with {target.backend}{all_}"


def able(
    nodes: Sequence[LiveNode],
    stage: Stage,
    target: Target,
    version: str | None,
    tool: PrecisionTool | None = None,
    sku: str | None = None,
) -> list[str]:
    """Return the names of the nodes that can do a stage for a target, on a SKU if one is named."""
    asked = (stage, target, version, tool, sku)
    return [node.name for node in nodes if serves(node.description, *asked)]


def newest_version(nodes: Sequence[LiveNode], target: Target) -> str | None:
    """Return the newest backend version that live nodes can check and compile with."""
    versions = {
        backend.version
        for node in nodes
        for backend in node.description.backends
        if backend.name == target.backend
        and all(
            serves(node.description, stage, target, backend.version)
            for stage in (Stage.CHECK, Stage.COMPILE)
        )
    }
    return newest(versions)


def measures_on(nodes: Sequence[LiveNode], target: Target, version: str | None) -> str | None:
    """Return the first architecture of a target on which a live node measures its engine."""
    found = {measured_arch(node.description, target, version) for node in nodes}
    return next((arch for arch in target.archs if arch in found), None)


def queue_now(
    nodes: Sequence[LiveNode],
    stage: Stage,
    target: Target,
    version: str | None,
    sku: str | None = None,
) -> str:
    """Return the queue of a stage: of several architectures it is one that is measured now."""
    if stage is not Stage.BENCHMARK or not target.beside:
        return queue_for(stage, target)
    if sku is not None:
        found = (arch_of_sku(node.description, target, sku) for node in nodes)
        return queue_for(stage, target, next(filter(None, found), None))
    return queue_for(stage, target, measures_on(nodes, target, version))


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
    return newest(versions)


def waits_for_measure(spec: BuildSpec, target: Target) -> bool:
    """Tell whether a gate asks the build to wait for a node that can measure, and for a while."""
    return spec.wait_for_node > 0 and any(
        gate.if_unmeasured is Unmeasured.WAIT for gate in spec.gates if needs_measure(gate, target)
    )
