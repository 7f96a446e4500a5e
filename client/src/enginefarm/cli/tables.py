"""Tables of what the farm has: builds, jobs, plans, models, nodes, targets, keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from rich.table import Table
from rich.text import Text

from enginefarm.cli.output import clean
from enginefarm.cli.results import NONE, short, size
from enginefarm.views import (
    BuildPage,
    BuildView,
    ModelView,
    NodeView,
    PlannedJob,
    PlanView,
    TargetAvailability,
    TensorView,
    TrustKey,
)

_WHOLE = {"build", "digest", "job", "key"}


def builds_table(page: BuildPage) -> Table:
    """Return a page of builds."""
    table = _table("build", "state", "model", "targets", "created")
    for build in page.items:
        targets = ", ".join(f"{each.target} {each.state}" for each in build.targets)
        row = (build.id, str(build.state), build.model_name, targets, when(build.created_at))
        table.add_row(*cells(row))
    return table


def jobs_table(build: BuildView) -> Table:
    """Return the jobs of a build."""
    table = _table("target", "stage", "state", "attempt", "node", "job", "note")
    for job in build.jobs:
        state = f"{job.state}{' (cached)' if job.cached_from else ''}"
        note = job.note or (job.failure.code if job.failure else "")
        row = (job.target, job.stage, state, job.attempt, job.node or NONE, job.id, note)
        table.add_row(*cells(row))
    return table


def plan_table(plan: PlanView) -> Table:
    """Return what a build would do, and for each miss what differs from the nearest build."""
    table = _table("target", "version", "stage", "outcome", "where", "why")
    for target in plan.targets:
        for job in target.jobs:
            where = job.source or ", ".join(job.nodes) or job.queue or NONE
            row = (target.target, target.backend_version or NONE, job.stage, job.outcome, where)
            table.add_row(*cells((*row, _why(job))))
        if not target.measured:
            missing = (target.target, "", "benchmark", "not measured", "", target.reason or "")
            table.add_row(*cells(missing))
    return table


def models_table(models: Iterable[ModelView]) -> Table:
    """Return the models."""
    table = _table("model", "size", "inputs", "opset", "nodes", "digest")
    for model in models:
        inputs = ", ".join(tensor(each) for each in model.inputs)
        opset = str(model.opsets.get("", model.opsets.get("ai.onnx", NONE)))
        row = (model.name, size(model.size), inputs, opset, str(model.node_count), model.digest)
        table.add_row(*cells(row))
    return table


def nodes_table(nodes: Iterable[NodeView]) -> Table:
    """Return the nodes."""
    table = _table("node", "state", "machine", "backends", "running", "seen")
    for node in nodes:
        machine = f"{node.cores} cores, {size(node.memory_bytes)}, {node.cpu}"
        backends = ", ".join(f"{each.name} {each.version}" for each in node.backends)
        running = ", ".join(node.running) or NONE
        state = f"{node.state}: {node.note}" if node.note else str(node.state)
        row = (node.name, state, machine, backends, running, when(node.last_seen_at))
        table.add_row(*cells(row))
    return table


def targets_table(targets: Iterable[TargetAvailability]) -> Table:
    """Return the targets."""
    table = _table("target", "versions", "built by", "measured by")
    for target in targets:
        absent = NONE if target.in_this_version else "not in this version"
        lists = (target.compiles, target.measures)
        versions = ", ".join(target.versions) or absent
        table.add_row(*cells((target.target, versions, *(", ".join(e) or NONE for e in lists))))
    return table


def trust_table(keys: Iterable[TrustKey]) -> Table:
    """Return the public keys."""
    table = _table("key", "state", "speaks for", "from", "until")
    for key in keys:
        state = "valid" if key.revoked_at is None else f"revoked {when(key.revoked_at)}"
        until = NONE if key.not_after is None else when(key.not_after)
        row = (key.keyid, state, ", ".join(key.builders), when(key.not_before), until)
        table.add_row(*cells(row))
    return table


def cells(row: Iterable[object]) -> Iterator[Text]:
    """Return the cells of a row as they are: what a name contains is no markup."""
    return (Text(clean(str(each))) for each in row)


def tensor(view: TensorView) -> str:
    """Return an input or output as text: ``x float32 [N, 3, ?, ?]``."""
    dims = ", ".join("?" if dim is None else str(dim) for dim in view.shape)
    return f"{view.name} {view.dtype} [{dims}]"


def when(time: datetime) -> str:
    """Return a time as a person here reads it."""
    return time.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        # What one copies is kept in one piece.
        table.add_column(heading, overflow="fold", no_wrap=heading in _WHOLE)
    return table


def _why(job: PlannedJob) -> str:
    if job.miss is None:
        return ""
    if job.miss.nearest_key is None:
        return "nothing like it was built before"
    differences = (f"{each.field}: {each.nearest} → {each.this}" for each in job.miss.differences)
    return f"nearest {short(job.miss.nearest_key)} differs in {'; '.join(differences)}"
