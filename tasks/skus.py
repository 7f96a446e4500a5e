"""On which SKUs an engine is measured: of its architecture, and of those that are there. Pure.

Which architecture a SKU has is known from the nodes that have it. So one that no live node has is
refused, whatever the build would wait for; one whose node leaves later is waited for as long as a
job may be queued, and the others are not held up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from enginefarm.errors import InvalidRequest
from enginefarm.nearest import did_you_mean
from enginefarm.sku import EVERY, MOST_SKUS, is_sku, sku_of
from enginefarm.spec import BuildSpec
from enginefarm.state import Stage
from tasks.plan import LiveNode, TargetPlan, able, waits_for_measure
from tasks.plugin_rules import having


def skus_by_arch(nodes: Iterable[LiveNode], *, well: bool = False) -> dict[str, set[str]]:
    """Return the SKUs of each GPU architecture that live nodes have; ``well``: without a fault.

    A device whose name gives none, or too long a one, is measured on wherever none is named.
    """
    found: dict[str, set[str]] = {}
    for node in nodes:
        for row in node.description.devices:
            sku = sku_of(row.name)
            if row.arch != "cpu" and is_sku(sku) and not (well and row.fault is not None):
                found.setdefault(row.arch, set()).add(sku)
    return found


def resolved(spec: BuildSpec, nodes: Sequence[LiveNode]) -> BuildSpec:
    """Return a spec that names each SKU that it asks for.

    Raises:
        InvalidRequest: ``measure_on_cpu``, ``unknown_sku``, ``sku_of_another_architecture``,
            ``too_many_skus``.
    """
    if not spec.measure_on:
        return spec
    wanted = [arch for row in spec.targets for arch in row.archs if arch != "cpu"]
    if not wanted:
        raise _no_gpu()
    there = skus_by_arch(nodes, well=spec.measure_on == [EVERY])
    fitting = sorted(set().union(*(there.get(arch, set()) for arch in wanted)))
    if spec.measure_on == [EVERY]:
        if not fitting:
            raise _unknown(EVERY, wanted, [])
        if len(fitting) > MOST_SKUS:
            raise _too_many(fitting)
        return spec.model_copy(update={"measure_on": fitting})
    for sku in spec.measure_on:
        if sku not in fitting:
            raise _elsewhere(sku, wanted, there) or _unknown(sku, wanted, fitting)
    return spec


def on_skus(spec: BuildSpec, plan: TargetPlan, nodes: Sequence[LiveNode]) -> TargetPlan:
    """Return the plan of a target with the SKUs of its architecture that a resolved spec names.

    Raises:
        InvalidRequest: nobody can measure the target on one of them (``sku_not_measured``).
    """
    by_arch = skus_by_arch(nodes)
    there = set().union(*(by_arch.get(arch, set()) for arch in plan.target.archs))
    skus = tuple(sku for sku in spec.measure_on if sku in there)
    if not skus or plan.version is None:
        return replace(plan, skus=skus)
    if not plan.measured:
        raise _not_measured(plan, skus[0], plan.reason or "")
    there_with = having(nodes, Stage.BENCHMARK, plan.target, spec.options.plugins)
    for sku in skus:
        measurers = able(there_with, Stage.BENCHMARK, plan.target, plan.version, sku=sku)
        if not measurers and not waits_for_measure(spec, plan.target):
            why = f"no live node measures {plan.target} {plan.version} on an {sku} that is well"
            raise _not_measured(plan, sku, why)
    return replace(plan, skus=skus)


def _no_gpu() -> InvalidRequest:
    return InvalidRequest(
        "SKUs to measure on are named, but no target is for a GPU.",
        code="measure_on_cpu",
        why="A processor's architecture here is cpu, whatever its model: there is no SKU of it.",
        fix="Leave out measure_on; each report names the processor that it was measured on.",
    )


def _elsewhere(
    sku: str, wanted: Sequence[str], there: dict[str, set[str]]
) -> InvalidRequest | None:
    arch = next((arch for arch, skus in there.items() if sku in skus), None)
    if arch is None:
        return None
    return InvalidRequest(
        f"The SKU {sku} is {arch}, for which this build has no target.",
        code="sku_of_another_architecture",
        why=f"The build is for {', '.join(dict.fromkeys(wanted))}; there is no engine for {arch}.",
        fix=f"Add a target for {arch}, or leave the SKU out.",
    )


def _unknown(sku: str, wanted: Sequence[str], fitting: Sequence[str]) -> InvalidRequest:
    archs = ", ".join(dict.fromkeys(wanted))
    near = did_you_mean(sku, fitting) if fitting and sku != EVERY else "See `enginefarm nodes`."
    return InvalidRequest(
        f"No live node has a GPU {sku}."
        if sku != EVERY
        else f"No live node has a GPU of {archs} that is well, to measure on.",
        code="unknown_sku",
        why=f"Of {archs} there are: {', '.join(fitting) or 'none'}.",
        fix=near,
    )


def _too_many(fitting: Sequence[str]) -> InvalidRequest:
    return InvalidRequest(
        f"Live nodes have {len(fitting)} SKUs to measure on.",
        code="too_many_skus",
        why=f"One build is measured on {MOST_SKUS} at most.",
        fix=f"Name those that matter, of: {', '.join(fitting)}.",
    )


def _not_measured(plan: TargetPlan, sku: str, why: str) -> InvalidRequest:
    plain = why.removeprefix("not run: ")
    return InvalidRequest(
        f"{plan.target} cannot be measured on an {sku}.",
        code="sku_not_measured",
        why=f"{plain[:1].upper()}{plain[1:]}.",
        fix="Leave the SKU out, or start a node that measures there.",
        target=str(plan.target),
    )
