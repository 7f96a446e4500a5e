"""Rows become the classes that go over the wire. Pure: the database has been asked before.

What a node or a stage left in JSON columns is read leniently where a person only looks at it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row

from api.verdicts import verdict_of
from enginefarm.errors import Failure
from enginefarm.spec import BuildSpec
from enginefarm.state import JobState, Stage
from enginefarm.target import Target
from enginefarm.trust_views import TrustKey
from enginefarm.views import (
    AttemptView,
    BackendView,
    BuildSummary,
    BuildView,
    DatasetView,
    EventView,
    FileView,
    JobView,
    ModelSummary,
    ModelView,
    NodeView,
    ProgressView,
    TargetView,
    TensorView,
)
from storage import models as rows
from storage.builds import kind_of
from tasks.chains import standing, telling
from tasks.lifecycle import target_state
from tasks.results import findings_of, repairs_left_of, repairs_of

_LIST_CHARS = 1000
"""So many letters of names a row of a list has, for its inputs and for its outputs."""


@dataclass(frozen=True)
class Around:
    """What stands around jobs: artifacts by digest, nodes' names by id, the rest by job id."""

    artifacts: Mapping[str, rows.Artifact] = field(default_factory=dict)
    attempts: Mapping[str, list[rows.Attempt]] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    progress: Mapping[str, dict[str, Any]] = field(default_factory=dict)


def model(row: rows.Model, *, existed: bool = False) -> ModelView:
    """Show a model."""
    return ModelView(
        digest=row.digest,
        name=row.name,
        size=row.size,
        files=[FileView.model_validate(file) for file in row.files],
        inputs=[TensorView.model_validate(tensor) for tensor in row.interface["inputs"]],
        outputs=[TensorView.model_validate(tensor) for tensor in row.interface["outputs"]],
        opsets=row.interface["opsets"],
        node_count=row.interface["node_count"],
        created_at=row.created_at,
        existed=existed,
    )


def model_summary(row: Row[Any]) -> ModelSummary:
    """Show a model as a row of a list: of long interfaces what fits in a few lines."""
    told = row._asdict()
    for kind in ("inputs", "outputs"):
        names = [str(tensor["name"]) for tensor in told[kind]]
        fit = sum(size <= _LIST_CHARS for size in itertools.accumulate(map(len, names)))
        told[kind] = told[kind][:fit]
    return ModelSummary.model_validate(told)


def dataset(row: rows.Dataset, *, existed: bool = False) -> DatasetView:
    """Show a dataset."""
    return DatasetView(
        digest=row.digest,
        name=row.name,
        size=row.size,
        samples=row.samples,
        arrays=[TensorView.model_validate(array) for array in row.arrays],
        created_at=row.created_at,
        existed=existed,
    )


def build_summary(row: rows.Build, jobs: Sequence[rows.Job], around: Around) -> BuildSummary:
    """Show a build as a row of a list."""
    return BuildSummary(**_summary(row, jobs, around))


def build(row: rows.Build, jobs: Sequence[rows.Job], around: Around) -> BuildView:
    """Show a build in full."""
    return BuildView(
        **_summary(row, jobs, around),
        spec=BuildSpec.model_validate(row.spec),
        jobs=[job(each, around) for each in jobs],
    )


def _summary(row: rows.Build, jobs: Sequence[rows.Job], around: Around) -> dict[str, Any]:
    by_target: dict[str, list[rows.Job]] = {}
    for each in jobs:
        by_target.setdefault(each.target, []).append(each)
    return {
        "id": row.id,
        "state": row.state,
        "model": row.model_digest,
        "model_name": row.model_name,
        "targets": [
            _target(row, name, by_target.get(name, []), around) for name in row.spec["targets"]
        ],
        "labels": row.labels,
        "priority": row.priority,
        "created_at": row.created_at,
        "finished_at": row.finished_at,
        "kind": kind_of(row),
        "bumped_at": row.bumped_at,
        "search": row.search_id,
    }


def _target(build: rows.Build, name: str, jobs: Sequence[rows.Job], around: Around) -> TargetView:
    every = sorted(jobs, key=lambda each: each.position)
    ordered = telling(every)
    found = (around.artifacts.get(artifact_of(each) or "") for each in ordered)
    made = next((row for row in found if row is not None), None)
    failed = next((each for each in ordered if each.failure is not None), None)
    compiles = [each for each in ordered if each.stage == Stage.COMPILE]
    verdict, reason = verdict_of(build, failed, made)
    return TargetView(
        target=Target.parse(name),
        state=target_state(standing(every)) if every else JobState.WAITING,
        artifact=made.digest if made else None,
        artifact_state=made.state if made else None,
        cached=any(each.cached_from is not None for each in compiles),
        failure=_failure(failed.failure) if failed else None,
        verdict=verdict,
        verdict_reason=reason,
    )


def artifact_of(row: rows.Job) -> str | None:
    """Return the digest of the artifact that a publish job made or took from the cache."""
    digest = (row.result or {}).get("artifact")
    return digest if isinstance(digest, str) else None


def job(row: rows.Job, around: Around) -> JobView:
    """Show a job."""
    progress = around.progress.get(row.id) if row.state is JobState.RUNNING else None
    return JobView(
        id=row.id,
        stage=Stage(row.stage),
        twin=row.twin,
        sku=row.sku,
        target=Target.parse(row.target),
        state=row.state,
        attempt=row.attempt,
        key=row.key,
        queue=row.queue,
        cached_from=row.cached_from,
        joined_to=row.joined_to,
        node=around.nodes.get(row.node_id or ""),
        progress=ProgressView.model_validate(progress) if progress else None,
        failure=_failure(row.failure),
        note=row.note,
        created_at=row.created_at,
        queued_at=row.queued_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        outputs=[FileView.model_validate(it) for it in (row.result or {}).get("outputs", [])],
        outputs_expired_at=row.result_expired_at,
        repairs=repairs_of(row.result),
        repairs_left=repairs_left_of(row.result),
        attempts=[_attempt(each, around) for each in around.attempts.get(row.id, [])],
        findings=findings_of(row.result, row.failure) if row.stage == Stage.CHECK else [],
    )


def _attempt(row: rows.Attempt, around: Around) -> AttemptView:
    return AttemptView(
        number=row.number,
        node=around.nodes.get(row.node_id or ""),
        state=row.state,
        started_at=row.started_at,
        finished_at=row.finished_at,
        failure=_failure(row.failure),
        log=row.log_digest if row.log_expired_at is None else None,
        log_expired_at=row.log_expired_at,
    )


def node(row: rows.Node, running: list[str]) -> NodeView:
    """Show a node and which of the caller's jobs it runs."""
    said = row.description
    return NodeView(
        id=row.id,
        name=row.name,
        state=row.state,
        hostname=said["hostname"],
        cpu=said["cpu"],
        cores=said["cores"],
        memory_bytes=said["memory_bytes"],
        devices=said["devices"],
        backends=[BackendView.model_validate(backend) for backend in said["backends"]],
        queues=row.queues,
        running=running,
        faults=row.faults,
        note=row.note,
        last_seen_at=row.last_seen_at,
        enrolled_at=row.enrolled_at,
    )


def trust_key(row: rows.SigningKey) -> TrustKey:
    """Show a public key."""
    return TrustKey(
        keyid=row.keyid,
        public_key=row.public_key,
        builders=row.builders,
        not_before=row.not_before,
        not_after=row.not_after,
        revoked_at=row.revoked_at,
    )


def event(row: rows.Event, event_id: str) -> EventView:
    """Show an event of a build."""
    told: dict[str, Any] = {"kind": row.kind, "data": row.data, "at": row.created_at}
    return EventView(id=event_id, build=row.build_id, job=row.job_id, **told)


def _failure(data: dict[str, Any] | None) -> Failure | None:
    return Failure.model_validate(data) if data else None
