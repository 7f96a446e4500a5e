"""Which queue a job goes to, and which queues a node serves. Pure.

A queue is ``<stage>.<arch>``. The architecture alone routes; whether the node that hears the ring
has the backend, in the version that the key names, and a GPU of the SKU, is asked at the claim, and
before a ring goes out. What serves every target, a model in another precision, is made wherever its
tool is: on any CPU with ONNX Runtime, which also judges it. A tool with an environment of its own,
ModelOpt, stands among a node's backends. An engine for several architectures is built where all of
them can be built for, and measured on the first of them that can be measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Any

from enginefarm.plugins import Named, needed
from enginefarm.precision import PrecisionTool
from enginefarm.sku import sku_of
from enginefarm.state import PRECISION_STAGES, Stage
from enginefarm.target import ARCHITECTURES, Target
from tasks.messages import BackendDescription, NodeDescription

NODE_STAGES = (
    Stage.REPAIR,
    Stage.CAST,
    Stage.CALIBRATE,
    Stage.CHECK,
    Stage.COMPILE,
    Stage.BENCHMARK,
)
"""Stages that run on nodes; ``publish`` runs in the control plane."""
PRECISION_TOOL = Target(backend="onnxruntime", arch="cpu")
"""What a node must build for to write models in another precision."""
NO_PLUGINS: Named = MappingProxyType({})
APART = frozenset({PrecisionTool.MODELOPT})
"""Tools that a node must have besides, each under its own name."""
ON_ITS_SKU = frozenset({Stage.CHECK, Stage.COMPILE, Stage.BENCHMARK})
"""Stages that need the SKU which a target names: the others write models, on no GPU."""


def made_with(stage: Stage, target: Target) -> Target:
    """Return what a node must be able to build for, so that it can run a stage of a target."""
    return PRECISION_TOOL if stage in PRECISION_STAGES else target


def needs_node_alone(stage: str) -> bool:
    """Tell whether a stage has a node to itself: a neighbour would be measured, too."""
    return stage == Stage.BENCHMARK


def queue_for(stage: Stage, target: Target, arch: str | None = None) -> str:
    """Return the queue of a stage on a target; of several architectures, ``arch`` measures."""
    return f"{stage}.{arch or made_with(stage, target).arch}"


def all_queues() -> list[str]:
    """Return every queue there can be; Celery is told all of them and makes no other."""
    return [
        f"{stage}.{arch}"
        for stage in NODE_STAGES
        for arch in ([PRECISION_TOOL.arch] if stage in PRECISION_STAGES else ARCHITECTURES)
    ]


def queues_served(node: NodeDescription) -> list[str]:
    """Return the queues a node consumes, from what its backends build and measure."""
    served = {
        f"{stage}.{arch}"
        for backend in node.backends
        if backend.name not in APART
        for stage in node.stages
        if stage in NODE_STAGES
        for arch in _served(backend, stage)
    }
    return sorted(served)


def _served(backend: BackendDescription, stage: Stage) -> Iterable[str]:
    if stage in PRECISION_STAGES:
        tool = PRECISION_TOOL
        return {tool.arch} & set(backend.builds) if backend.name == tool.backend else ()
    return backend.measures if stage is Stage.BENCHMARK else backend.builds


def backend_for(
    backends: Sequence[BackendDescription],
    stage: Stage,
    target: Target,
    version: str | None = None,
    tool: PrecisionTool | None = None,
) -> BackendDescription | None:
    """Return the backend that can do ``stage`` for ``target``, in ``version`` if one is named.

    For a precision it is the one that ``version`` is of: that of the ``tool`` that makes it. On
    which SKU is not asked here.
    """
    target = made_with(stage, target)
    if stage in PRECISION_STAGES and tool in APART:
        there = backend_for(backends, stage, target) is not None
        return _named(backends, str(tool), stage, target, version) if there else None
    return _named(backends, target.backend, stage, target, version)


def _named(
    backends: Iterable[BackendDescription],
    name: str,
    stage: Stage,
    target: Target,
    version: str | None,
) -> BackendDescription | None:
    for backend in backends:
        able = _able(backend, stage, target)
        if backend.name == name and able and version in {None, backend.version}:
            return backend
    return None


def _able(backend: BackendDescription, stage: Stage, target: Target) -> bool:
    if stage is Stage.BENCHMARK:
        return not set(backend.measures).isdisjoint(target.archs)
    return set(backend.builds).issuperset(target.archs)


def measured_arch(node: NodeDescription, target: Target, version: str | None) -> str | None:
    """Return the first architecture of a target that a node measures, if it measures one."""
    if not serves(node, Stage.BENCHMARK, target, version):
        return None
    backend = backend_for(node.backends, Stage.BENCHMARK, target, version)
    return next((arch for arch in target.archs if backend and arch in backend.measures), None)


def skus_of(node: NodeDescription, arch: str) -> set[str]:
    """Return the SKUs of a node's GPUs of an architecture that are well."""
    return {sku_of(row.name) for row in node.devices if row.arch == arch and row.fault is None}


def arch_of_sku(node: NodeDescription, target: Target, sku: str) -> str | None:
    """Return the architecture of a target of which a node has a SKU that is well, if any."""
    return next((arch for arch in target.archs if sku in skus_of(node, arch)), None)


def serves(
    node: NodeDescription,
    stage: Stage,
    target: Target,
    version: str | None = None,
    tool: PrecisionTool | None = None,
    sku: str | None = None,
    plugins: Named = NO_PLUGINS,
) -> bool:
    """Tell whether a node can do ``stage`` for ``target``; ``tool`` makes its precision.

    ``sku`` is that of the GPU to do it on, where it is another than the target names, or none.
    ``plugins`` are those of the build; asked for are those that the stage needs.
    """
    if stage not in node.stages or (target.refined and not node.reads_refined_targets):
        return False
    wanted = sku or target.sku
    if wanted is not None and stage in ON_ITS_SKU and not arch_of_sku(node, target, wanted):
        return False
    if lacking(node, needed(stage, target, plugins)):
        return False
    return backend_for(node.backends, stage, target, version, tool) is not None


def lacking(node: NodeDescription, wanted: Named) -> list[str]:
    """Return the plugins that a node does not have for the backend that is to load them."""
    there = {(row.name, each.digest) for row in node.backends for each in row.plugins}
    return [
        digest
        for backend, digests in wanted.items()
        for digest in digests
        if (backend, digest) not in there
    ]


def plugins_of(recipe: dict[str, Any] | None) -> Named:
    """Return the plugins that a stage's recipe names."""
    found: Named = (recipe or {}).get("plugins") or NO_PLUGINS
    return found


def tool_of(recipe: dict[str, Any] | None) -> PrecisionTool | None:
    """Return the tool that a stage's recipe names, if it makes a precision."""
    name = ((recipe or {}).get("precision") or {}).get("tool")
    return None if name is None else PrecisionTool(name)
