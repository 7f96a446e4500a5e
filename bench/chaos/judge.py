"""Who judges: from the rows and the bucket, once the farm was left to finish.

*Recovery time of a kill*: from the kill until the end of the next attempt that **began after it**
and succeeded. By then a ring was sent, heard and claimed, a child (or the publisher) has done the
work, its bytes were stored, proved and settled: all parts are back. So it contains the work of one
attempt, the time for which the killer kept the part away, later kills that fell into it, and, if
there was nothing to do just then, waiting for somebody to ask. It is never less than what a person
would have felt. Kills after which nothing was left to do have none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import func, select

from bench.chaos.killer import Kill
from enginefarm.errors import JobFailed
from enginefarm.manifest import read_manifest
from enginefarm.state import ArtifactState, BuildState, JobState, Stage
from storage.database import Database, Session
from storage.models import Artifact, Attempt, Attestation, Build, Event, Job
from storage.objects import S3Objects


@dataclass
class Verdict:
    """What came of it all."""

    builds: int = 0
    hits: int = 0
    joins: int = 0
    artifacts: int = 0
    attempts: int = 0
    wasted: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    recovery: list[tuple[float, str]] = field(default_factory=list)
    """Recovery time of each kill that has one, and what was killed; the shortest first."""

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, doubled or missing."""
        return not (self.lost or self.doubled or self.missing)


def judge(
    database: Database,
    objects: S3Objects,
    accepted: set[str],
    asked: set[str],
    kills: Sequence[Kill],
) -> Verdict:
    """Look at every row that counts and every byte that was published."""
    found = Verdict()
    with database.transaction() as session:
        _builds(session, found, accepted, asked)
        _published(session, found)
        _made_once(session, found)
        _attempts(session, found, kills)
        published = session.scalars(
            select(Artifact).where(Artifact.state == ArtifactState.PUBLISHED)
        ).all()
    found.artifacts = len(published)
    for digest, size in sorted({row for each in published for row in _files(each)}):
        try:
            objects.confirm(digest, size)
        except JobFailed as error:
            found.missing.append(f"{digest}: {error.code}")
    return found


def unfinished(database: Database) -> int:
    """Count the builds that have not ended."""
    with database.transaction() as session:
        waiting = select(func.count()).select_from(Build).where(Build.finished_at.is_(None))
        return session.scalar(waiting) or 0


def recovery_times(
    kills: Iterable[Kill], ran: Sequence[tuple[datetime, datetime]]
) -> list[tuple[float, str]]:
    """Return the recovery time of each kill that has one; ``ran``: begin and end of attempts."""
    return sorted(
        (min((end - kill.at).total_seconds() for begin, end in ran if begin > kill.at), kill.what)
        for kill in kills
        if any(begin > kill.at for begin, _ in ran)
    )


def _builds(session: Session, found: Verdict, accepted: set[str], asked: set[str]) -> None:
    rows = session.scalars(select(Build)).all()
    found.builds = len(rows)
    found.lost += [f"{missing}: not in the database" for missing in accepted - {r.id for r in rows}]
    uses = Counter(row.idempotency_key for row in rows)
    found.doubled += [f"key {key}: {n} builds" for key, n in uses.items() if n > 1]
    found.doubled += [f"key {key}: never asked" for key in uses if key not in asked]
    for row in rows:
        its_jobs = session.scalars(select(Job).where(Job.build_id == row.id)).all()
        states = ", ".join(f"{job.stage} {job.state}" for job in its_jobs)
        if row.state is not BuildState.SUCCEEDED:
            codes = {job.failure["code"] for job in its_jobs if job.failure}
            found.lost.append(f"{row.id}: {row.state} ({states}) {sorted(codes) or ''}")
        elif any(job.state is not JobState.SUCCEEDED for job in its_jobs):
            found.lost.append(f"{row.id}: succeeded, with {states}")
        joined = Event.data["joined"].as_boolean()
        told = select(Event.seq).where(Event.build_id == row.id, joined).limit(1)
        waited = session.scalar(told) is not None
        found.joins += waited
        found.hits += not waited and all(job.cached_from is not None for job in its_jobs)


def _published(session: Session, found: Verdict) -> None:
    """See that each publish job has one artifact and one attestation: its own, or its leader's."""
    of_job = (
        select(Job.id, func.count(Artifact.digest))
        .outerjoin(Artifact, Artifact.job_id == Job.id)
        .where(
            Job.stage == Stage.PUBLISH, Job.state == JobState.SUCCEEDED, Job.cached_from.is_(None)
        )
        .group_by(Job.id)
    )
    for job_id, count in session.execute(of_job):
        signed = session.scalar(
            select(func.count()).select_from(Attestation).where(Attestation.job_id == job_id)
        )
        if (count, signed) > (1, 1) or max(count, signed or 0) > 1:
            found.doubled.append(f"{job_id}: {count} artifacts, {signed} attestations")
        elif (count, signed) != (1, 1):
            found.lost.append(f"{job_id}: {count} artifacts, {signed} attestations")
    known = set(session.scalars(select(Artifact.digest)))
    for row in session.scalars(
        select(Job).where(Job.stage == Stage.PUBLISH, Job.state == JobState.SUCCEEDED)
    ):
        if (row.result or {}).get("artifact") not in known:
            found.lost.append(f"{row.id}: published nothing")


def _made_once(session: Session, found: Verdict) -> None:
    """See that no two jobs have done the same thing, and that none is left."""
    twice = (
        select(Job.tenant_id, Job.key, func.count())
        .where(
            Job.state == JobState.SUCCEEDED, Job.cached_from.is_(None), Job.withdrawn_at.is_(None)
        )
        .group_by(Job.tenant_id, Job.key)
        .having(func.count() > 1)
    )
    found.doubled += [f"{key}: made {count} times" for _, key, count in session.execute(twice)]
    live = [state for state in JobState if not state.terminal]
    rows = session.scalars(select(Job).where(Job.state.in_(live)))
    found.lost += [f"{row.id}: {row.stage} is {row.state} ({row.note or ''})" for row in rows]


def _attempts(session: Session, found: Verdict, kills: Sequence[Kill]) -> None:
    rows = session.scalars(select(Attempt)).all()
    found.attempts = len(rows)
    found.wasted = Counter(
        str((row.failure or {}).get("code", row.state))
        for row in rows
        if row.state is not JobState.SUCCEEDED
    )
    ran = [
        (row.started_at, row.finished_at)
        for row in rows
        if row.state is JobState.SUCCEEDED and row.finished_at is not None
    ]
    found.recovery = recovery_times(kills, ran)


def _files(artifact: Artifact) -> list[tuple[str, int]]:
    manifest = read_manifest(artifact.manifest)
    parts = [manifest.config, *manifest.layers]
    return [(artifact.digest, len(artifact.manifest)), *((row.digest, row.size) for row in parts)]
