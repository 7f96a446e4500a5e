"""Tables of what the farm has: builds, jobs, plans, models, nodes, targets, keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from enginefarm.cli.figures import size, tensor
from enginefarm.cli.grid import NONE, Column, Digest, Grid, short
from enginefarm.counted import counted
from enginefarm.plan_views import PlannedJob, PlanView
from enginefarm.state import Stage
from enginefarm.trust_views import TrustKey
from enginefarm.views import (
    BuildPage,
    BuildView,
    JobView,
    ModelSummary,
    ModelView,
    NodeView,
    PluginView,
    TargetAvailability,
)


def builds_table(page: BuildPage) -> Grid:
    """Return a page of builds."""
    grid = _grid("build!", "kind!", "state!", "model~", "targets", "created")
    for build in page.items:
        targets = "\n".join(f"{each.target} {each.state}" for each in build.targets)
        row = (build.id, str(build.kind), str(build.state), build.model_name, targets)
        grid.add(*row, when(build.created_at))
    return grid


def jobs_table(build: BuildView) -> Grid:
    """Return the jobs of a build."""
    names = ("target!", "stage!", "state!", "attempt#", "node", "started", "took#", "job", "note~")
    grid = _grid(*names)
    for job in build.jobs:
        state = f"{job.state}{' (cached)' if job.cached_from else ''}"
        note = job.note or (job.failure.code if job.failure else _before(job) or _repaired(job))
        row = (str(job.target), job.step, state, str(job.attempt), job.node or NONE)
        started = NONE if job.started_at is None else when(job.started_at)
        grid.add(*row, started, _took(job), job.id, note)
    return grid


def _before(job: JobView) -> str:
    """Tell what became of the attempts before, where a job goes on all the same."""
    told = [
        f"attempt {row.number}: {row.failure.code}{f' on {row.node}' if row.node else ''}"
        for row in job.attempts
        if row.failure is not None
    ]
    return "; ".join(told)


def _repaired(job: JobView) -> str:
    return ", ".join(job.repairs)


def plan_table(plan: PlanView) -> Grid:
    """Return what a build would do, and for each miss what differs from the nearest build."""
    grid = _grid("target!", "version", "stage!", "outcome!", "where~", "why~")
    for target in plan.targets:
        for job in target.jobs:
            where = job.source or ", ".join(job.nodes) or job.queue or NONE
            row = (str(target.target), target.backend_version or NONE, job.step, job.outcome)
            grid.add(*row, where, _why(job))
        if not target.measured and not any(job.stage is Stage.BENCHMARK for job in target.jobs):
            reason = target.reason or ""
            grid.add(str(target.target), "", "benchmark", "not measured", "", reason)
    return grid


def models_table(models: Iterable[ModelView | ModelSummary]) -> Grid:
    """Return the models; where only some of the inputs are told, how many more there are."""
    grid = _grid("model!", "size#", "inputs~", "opset#", "nodes#", "digest")
    for model in models:
        shown = [tensor(each) for each in model.inputs]
        if isinstance(model, ModelSummary) and model.input_count > len(shown):
            shown.append(f"{model.input_count - len(shown)} more")
        inputs = ", ".join(shown)
        opset = str(model.opsets.get("", model.opsets.get("ai.onnx", NONE)))
        row = (model.name, size(model.size), inputs, opset, str(model.node_count))
        grid.add(*row, Digest(model.digest))
    return grid


def nodes_table(nodes: Iterable[NodeView]) -> Grid:
    """Return the nodes."""
    grid = _grid("node!", "state!", "machine~", "backends~", "running~", "seen", "note~")
    for node in nodes:
        gpus = [str(each["name"]) for each in node.devices if each["arch"] != "cpu"]
        machine = f"{counted(node.cores, 'core')}, {size(node.memory_bytes)}, {node.cpu}"
        machine = ", ".join([machine, *gpus])
        backends = ", ".join(f"{each.name} {each.version}" for each in node.backends)
        running = ", ".join(node.running) or NONE
        row = (node.name, str(node.state), machine, backends, running, when(node.last_seen_at))
        grid.add(*row, "\n".join(_notes(node)))
    return grid


def _notes(node: NodeView) -> Iterator[str]:
    """Yield why a node, a GPU of it that is out, or a backend on its GPUs, takes no work."""
    if node.note:
        yield node.note
    for row in node.backends:
        if row.gpus_unused:
            yield f"{row.name} uses no GPU: {row.gpus_unused}"
    for each in node.devices:
        if each.get("fault"):
            yield f"{each['uuid']} is out: {each['fault']}"


def targets_table(targets: Iterable[TargetAvailability]) -> Grid:
    """Return the targets."""
    grid = _grid("target!", "versions~", "built by~", "measured by~", "SKUs~")
    for target in targets:
        absent = NONE if target.in_this_version else "not in this version"
        lists = (
            ", ".join(each) or NONE for each in (target.compiles, target.measures, target.skus)
        )
        grid.add(str(target.target), ", ".join(target.versions) or absent, *lists)
    return grid


def plugins_table(plugins: Iterable[PluginView]) -> Grid:
    """Return the plugin libraries; a digest that is to be named is never cut."""
    grid = _grid("backend!", "library~", "digest!", "operators~", "on~")
    for row in plugins:
        operators = NONE if row.operators is None else ", ".join(row.operators)
        grid.add(row.backend, row.name, row.digest, operators, ", ".join(row.nodes))
    return grid


def trust_table(keys: Iterable[TrustKey]) -> Grid:
    """Return the public keys; an id that is compared with the operator's is never cut."""
    grid = _grid("key!", "state!", "speaks for~", "from", "until")
    for key in keys:
        state = "valid" if key.revoked_at is None else f"revoked {when(key.revoked_at)}"
        until = NONE if key.not_after is None else when(key.not_after)
        grid.add(key.keyid, state, ", ".join(key.builders), when(key.not_before), until)
    return grid


def when(time: datetime) -> str:
    """Return a time as a person here reads it, with its zone."""
    return time.astimezone().isoformat(sep=" ", timespec="seconds")


def _took(job: JobView) -> str:
    if job.started_at is None or job.finished_at is None:
        return NONE
    return f"{max(0.0, (job.finished_at - job.started_at).total_seconds()):.1f} s"


def _grid(*headings: str) -> Grid:
    """Return an empty grid; ``!`` heads a block, ``~`` may be broken, ``#`` is a number."""
    return Grid(
        tuple(
            Column(name.rstrip("!~#"), free="~" in name, right="#" in name, head="!" in name)
            for name in headings
        )
    )


def _why(job: PlannedJob) -> str:
    if job.miss is None:
        took = f"takes {size(job.memory_bytes)}, as measured before" if job.memory_bytes else ""
        return f"repairs: {', '.join(job.repairs)}" if job.repairs else took
    if job.miss.nearest_key is None:
        return "nothing like it was built before"
    if not job.miss.differences:
        return f"nearest {short(job.miss.nearest_key)} is the same, and what it made is not kept"
    differences = (f"{each.field}: {each.nearest} → {each.this}" for each in job.miss.differences)
    return f"nearest {short(job.miss.nearest_key)} differs in {'; '.join(differences)}"
