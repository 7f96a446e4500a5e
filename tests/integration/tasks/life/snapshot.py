"""What the rows say after a step, read once, for the laws to look at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from sqlalchemy import Row, select

from enginefarm.state import BuildState, JobState, Stage
from storage.database import Database
from storage.models import (
    Artifact,
    Attempt,
    Attestation,
    Blob,
    Build,
    Event,
    Expired,
    Job,
    Model,
    Outbox,
)

LIVE = frozenset({JobState.WAITING, JobState.QUEUED, JobState.RUNNING, JobState.UPLOADED})

_BUILD: tuple[Any, ...] = (
    Build.id,
    Build.tenant_id,
    Build.state,
    Build.model_digest,
    Build.event_seq,
    Build.idempotency_key,
    Build.cancelled_at,
    Build.finished_at,
    Build.events_expired_at,
    Build.results_expired_at,
)
_JOB: tuple[Any, ...] = (
    Job.id,
    Job.tenant_id,
    Job.build_id,
    Job.target,
    Job.stage,
    Job.sku,
    Job.state,
    Job.attempt,
    Job.failures,
    Job.key,
    Job.joined_to,
    Job.cached_from,
    Job.withdrawn_at,
    Job.result_expired_at,
    Job.lease_until,
    Job.lease_sha256,
    Job.node_id,
    Job.cancel_requested_at,
    Job.failure,
    Job.result,
    Job.finished_at,
)
_ATTEMPT: tuple[Any, ...] = (
    Attempt.job_id,
    Attempt.number,
    Attempt.state,
    Attempt.failure,
    Attempt.lease_sha256,
    Attempt.finished_at,
    Attempt.log_digest,
    Attempt.log_expired_at,
)
_RING: tuple[Any, ...] = (Outbox.job_id, Outbox.attempt, Outbox.sent_at)
_ARTIFACT: tuple[Any, ...] = (
    Artifact.tenant_id,
    Artifact.digest,
    Artifact.job_id,
    Artifact.state,
    Artifact.manifest,
    Artifact.engine_expired_at,
    Artifact.created_at,
    Artifact.build_id,
    Artifact.model_digest,
)
_MODEL: tuple[Any, ...] = (Model.tenant_id, Model.digest, Model.files, Model.used_at)
_BLOB: tuple[Any, ...] = (Blob.tenant_id, Blob.digest)
_EXPIRED: tuple[Any, ...] = (Expired.tenant_id, Expired.kind, Expired.digest)
_EVENT: tuple[Any, ...] = (Event.build_id, Event.seq, Event.job_id, Event.kind, Event.data)
# Made once: to put them together takes longer than the database does to answer them.
_BUILDS = select(*_BUILD).order_by(Build.id)
_JOBS = select(*_JOB).order_by(Job.build_id, Job.target, Job.position)
_ATTEMPTS = select(*_ATTEMPT).order_by(Attempt.number)
_RINGS = select(*_RING)
_ARTIFACTS = select(*_ARTIFACT).order_by(Artifact.created_at)
_ATTESTED = select(Attestation.artifact_digest)
_MODELS = select(*_MODEL)
_BLOBS = select(*_BLOB)
_EXPIREDS = select(*_EXPIRED)
_EVENTS = select(*_EVENT).order_by(Event.seq)

AnyRow = Row[Any]


@dataclass(frozen=True)
class Snapshot:
    """All rows of the farm's work; ``events`` are those that are new since the last snapshot."""

    builds: dict[str, AnyRow]
    jobs: dict[str, AnyRow]
    attempts: dict[str, list[AnyRow]]
    rings: dict[tuple[str, int], list[AnyRow]]
    artifacts: list[AnyRow]
    attested: list[str]
    models: dict[tuple[str, str], list[str]]  # tenant and digest: the digests of its files
    events: dict[str, list[AnyRow]]
    blobs: set[tuple[str, str]]  # tenant and digest
    expired: set[tuple[str, str, str]]  # tenant, kind and digest
    used: dict[tuple[str, str], datetime]  # tenant and digest of a model: when it was brought

    @cached_property
    def jobs_of(self) -> dict[str, list[AnyRow]]:
        """The jobs of each build, target by target, in the order in which they run."""
        found = defaultdict(list)
        for job in self.jobs.values():
            found[job.build_id].append(job)
        return found

    @cached_property
    def followers(self) -> dict[str, list[AnyRow]]:
        """The jobs that wait for another's result, by the other's id."""
        found = defaultdict(list)
        for job in self.jobs.values():
            if job.state is JobState.WAITING and job.joined_to is not None:
                found[job.joined_to].append(job)
        return found

    def wanted(self, job: AnyRow) -> bool:
        """Tell whether a build that is not cancelled waits for this job."""
        builds = (self.builds[row.build_id] for row in self.followers.get(job.id, ()))
        return any(build.state is not BuildState.CANCELLED for build in builds)

    def in_state(self, state: JobState, *stages: Stage) -> list[AnyRow]:
        wanted = [str(stage) for stage in stages or Stage]
        return [row for row in self.jobs.values() if row.state is state and row.stage in wanted]

    @property
    def busy(self) -> bool:
        """Whether a build or a job has not ended."""
        return any(job.state in LIVE for job in self.jobs.values()) or any(
            not BuildState(build.state).terminal for build in self.builds.values()
        )


def take(database: Database, heard: Mapping[str, int]) -> Snapshot:
    """Read the rows as they are now; of events, those after the last one heard of each build."""
    with database.transaction() as session:
        builds: dict[str, AnyRow] = {row.id: row for row in session.execute(_BUILDS)}
        jobs = session.execute(_JOBS)
        attempts: dict[str, list[AnyRow]] = defaultdict(list)
        for row in session.execute(_ATTEMPTS):
            attempts[row.job_id].append(row)
        rings: dict[tuple[str, int], list[AnyRow]] = defaultdict(list)
        for ring in session.execute(_RINGS):
            rings[ring.job_id, ring.attempt].append(ring)
        told = defaultdict(list)
        moved = [row.id for row in builds.values() if row.event_seq != heard.get(row.id, 0)]
        query = _EVENTS.where(Event.build_id.in_(moved))
        for event in session.execute(query) if moved else ():
            if event.seq > heard.get(event.build_id, 0):
                told[event.build_id].append(event)
        models = {(row.tenant_id, row.digest): row for row in session.execute(_MODELS)}
        return Snapshot(
            builds=builds,
            jobs={row.id: row for row in jobs},
            attempts=attempts,
            rings=rings,
            artifacts=list(session.execute(_ARTIFACTS)),
            attested=list(session.scalars(_ATTESTED)),
            models={key: [file["digest"] for file in row.files] for key, row in models.items()},
            events=told,
            blobs={(row.tenant_id, row.digest) for row in session.execute(_BLOBS)},
            expired={(row.tenant_id, row.kind, row.digest) for row in session.execute(_EXPIREDS)},
            used={key: row.used_at for key, row in models.items()},
        )
