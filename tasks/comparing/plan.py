"""Which stages a build goes through, be it a comparison, which builds nothing. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from enginefarm.compared import Compared
from enginefarm.spec import BuildSpec
from enginefarm.state import Stage
from enginefarm.target import Target
from tasks.plan import LiveNode, TargetPlan, newest_version, plan_target
from tasks.plugin_rules import having
from tasks.routing import serves
from tasks.unserved import nobody_compares
from tasks.versions import newest

COMPARED_STAGES = (Stage.BENCHMARK, Stage.PUBLISH)


def plan_for(spec: BuildSpec, target: Target, nodes: Sequence[LiveNode]) -> TargetPlan:
    """Decide the stages of a target: see :func:`tasks.plan.plan_target`.

    Raises:
        NotServed: as there, or nobody runs two artifacts side by side and the person does not want
            to wait (code ``comparison_not_served``).
        InvalidRequest: as there.
    """
    if spec.compare is None:
        return plan_target(spec, target, nodes)
    version = planned_version(spec, target, nodes)
    if version is None and spec.wait_for_node == 0:
        raise nobody_compares(target, spec.compare.backend_version)
    return TargetPlan(target, version, COMPARED_STAGES, measured=True, reason=None)


def planned_version(spec: BuildSpec, target: Target, nodes: Sequence[LiveNode]) -> str | None:
    """Return the backend version in which live nodes would do what a build asks of a target."""
    if spec.compare is None:
        return newest_version(having(nodes, Stage.CHECK, target, spec.options.plugins), target)
    there = having(nodes, Stage.BENCHMARK, target, spec.options.plugins)
    return _comparing(spec.compare, target, there)


def _comparing(compare: Compared, target: Target, nodes: Sequence[LiveNode]) -> str | None:
    """Return the newest backend version in which nodes compare, or the only one that loads both."""
    return newest(
        backend.version
        for node in nodes
        if node.description.compares
        for backend in node.description.backends
        if backend.name == target.backend
        and compare.backend_version in {None, backend.version}
        and serves(node.description, Stage.BENCHMARK, target, backend.version)
    )
