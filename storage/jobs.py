"""Jobs. A state is written only by :func:`compare_and_set`, for ``tasks.moves``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import and_, exists, func, inspect, select, update
from sqlalchemy.orm import aliased

from enginefarm.errors import NotFound
from enginefarm.state import BuildState, JobState, Stage
from storage.database import Session, now
from storage.models import Attempt, Build, Job, Outbox

IN_FLIGHT = (JobState.QUEUED, JobState.RUNNING, JobState.UPLOADED)
LIVE = (JobState.WAITING, *IN_FLIGHT)


def of_build(session: Session, tenant_id: str, build_id: str) -> list[Job]:
    """Return a build's jobs in the order in which they run."""
    return list(
        session.scalars(
            select(Job)
            .where(Job.tenant_id == tenant_id, Job.build_id == build_id)
            .order_by(Job.target, Job.position)
        )
    )


def find(session: Session, job_id: str) -> Job | None:
    """Return a job, whoever owns it; for the control plane and nodes only."""
    return session.get(Job, job_id)


def lock(session: Session, job_id: str) -> Job | None:
    """Return a job's row as it is now, locked until the transaction ends."""
    return session.scalar(
        select(Job)
        .where(Job.id == job_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )


def compare_and_set(session: Session, job: Job, goal: JobState, values: dict[str, Any]) -> bool:
    """Move a job if it still is where ``job`` says; tell whether it was.

    A job that this transaction has made and not yet written is seen by nobody else: it moves in
    memory and is written once, where it got to.
    """
    if inspect(job).pending:
        for name, value in {"state": goal, **values}.items():
            setattr(job, name, value)
        return True
    moved = session.scalar(
        update(Job)
        .where(Job.id == job.id, Job.state == job.state, Job.attempt == job.attempt)
        .values(state=goal, **values)
        .returning(Job)
        .execution_options(synchronize_session=False, populate_existing=True)
    )
    return moved is not None


def succeeded_with_key(session: Session, tenant_id: str, key: str) -> Job | None:
    """Return the newest job that did this very thing, for the cache."""
    return session.scalar(
        select(Job)
        .where(
            Job.tenant_id == tenant_id,
            Job.key == key,
            Job.state == JobState.SUCCEEDED,
            Job.result.is_not(None),
            Job.withdrawn_at.is_(None),
            Job.cached_from.is_(None),
        )
        .order_by(Job.finished_at.desc())
        .limit(1)
    )


def withdraw(session: Session, job: Job) -> None:
    """Let no later job take this one's result, or the result it took itself, from the cache."""
    session.execute(
        update(Job)
        .where(Job.id.in_([job.id, job.cached_from or job.id]), Job.withdrawn_at.is_(None))
        .values(withdrawn_at=now())
        .execution_options(synchronize_session=False)
    )


def in_flight_with_key(session: Session, tenant_id: str, key: str, but: str) -> Job | None:
    """Return the job that is doing this very thing now, other than ``but``.

    One that is being cancelled counts: while it holds the key no other may be queued, and whoever
    joined it is let go when it ends.
    """
    return session.scalar(
        select(Job)
        .where(
            Job.tenant_id == tenant_id,
            Job.key == key,
            Job.id != but,
            Job.joined_to.is_(None),
            Job.state.in_(LIVE),
        )
        .order_by(Job.id)
        .limit(1)
    )


def followers(session: Session, job_id: str) -> Sequence[Job]:
    """Return the jobs that wait for this one's result."""
    return session.scalars(
        select(Job).where(Job.joined_to == job_id, Job.state == JobState.WAITING).order_by(Job.id)
    ).all()


def nearest_recipe(
    session: Session, tenant_id: str, stage: Stage, target: str, model: str
) -> list[Job]:
    """Return finished jobs of the stage whose recipes might be near: same target or model."""
    rows = session.scalars(
        select(Job)
        .join(Build, Build.id == Job.build_id)
        .where(
            Job.tenant_id == tenant_id,
            Job.stage == stage,
            Job.state == JobState.SUCCEEDED,
            Job.recipe.is_not(None),
            (Job.target == target) | (Build.model_digest == model),
        )
        .order_by(Job.id.desc())
        .limit(50)
    )
    return list(rows)


def ids_in_state(
    session: Session, state: JobState, *, stage: Stage | None = None, limit: int = 50
) -> Sequence[str]:
    """Return the oldest jobs in a state."""
    query = select(Job.id).where(Job.state == state)
    if stage is not None:
        query = query.where(Job.stage == stage)
    return session.scalars(query.order_by(Job.id).limit(limit)).all()


def publishable(session: Session, limit: int = 50) -> Sequence[str]:
    """Return the publish jobs whose engine is ready and whose time has come."""
    return session.scalars(
        select(Job.id)
        .where(
            Job.state == JobState.WAITING,
            Job.stage == Stage.PUBLISH,
            Job.key.is_not(None),
            Job.joined_to.is_(None),
            (Job.not_before.is_(None)) | (Job.not_before <= now()),
        )
        .order_by(Job.priority, Job.id)
        .limit(limit)
    ).all()


def with_lapsed_lease(session: Session) -> Sequence[str]:
    """Return the running jobs whose lease has ended."""
    return session.scalars(
        select(Job.id).where(Job.state == JobState.RUNNING, Job.lease_until < now())
    ).all()


def end_leases(session: Session, node_id: str, started_before: datetime, but: list[str]) -> int:
    """Let the leases of a node's jobs end now, except those of ``but``; return how many."""
    ended = session.execute(
        update(Job)
        .where(
            Job.node_id == node_id,
            Job.state == JobState.RUNNING,
            Job.started_at < started_before,
            Job.lease_until > now(),
            Job.id.not_in(but),
        )
        .values(lease_until=now())
        .returning(Job.id)
        .execution_options(synchronize_session=False)
    )
    return len(ended.all())


def renew_lease(session: Session, job_id: str, attempt: int, until: datetime) -> None:
    """Lengthen the lease of an attempt that runs still."""
    session.execute(
        update(Job)
        .where(Job.id == job_id, Job.attempt == attempt, Job.state == JobState.RUNNING)
        .values(lease_until=until)
        .execution_options(synchronize_session=False)
    )


def running_on(session: Session, node_id: str) -> Sequence[Job]:
    """Return the jobs that run on a node."""
    return session.scalars(
        select(Job).where(Job.node_id == node_id, Job.state == JobState.RUNNING).order_by(Job.id)
    ).all()


def queued_too_long(session: Session) -> Sequence[str]:
    """Return the queued jobs whose pending clock has run out."""
    seconds = Job.limits["pending_s"].as_float()
    return session.scalars(
        select(Job.id).where(
            Job.state == JobState.QUEUED,
            func.extract("epoch", now() - Job.queued_at) > seconds,
        )
    ).all()


def waiting_for_a_node(session: Session) -> Sequence[str]:
    """Return the jobs that wait for a node that can do them."""
    return session.scalars(
        select(Job.id)
        .where(Job.state == JobState.WAITING, Job.wait_until.is_not(None), Job.key.is_(None))
        .order_by(Job.id)
    ).all()


def unheard(session: Session, sent_before: datetime) -> Sequence[Job]:
    """Return the queued jobs whose last ring was sent long ago and that have none to be sent."""
    ring = aliased(Outbox)
    recent = exists().where(
        and_(
            ring.job_id == Job.id,
            ring.attempt == Job.attempt,
            (ring.sent_at.is_(None)) | (ring.sent_at >= sent_before),
        )
    )
    return session.scalars(
        select(Job).where(Job.state == JobState.QUEUED, ~recent).order_by(Job.id).limit(200)
    ).all()


def orphaned_followers(session: Session) -> Sequence[str]:
    """Return the ended jobs that still have followers."""
    follower = aliased(Job)
    return session.scalars(
        select(Job.id).where(
            Job.state.not_in(LIVE),
            exists().where(follower.joined_to == Job.id, follower.state == JobState.WAITING),
        )
    ).all()


def wanted_by_others(session: Session, job: Job) -> bool:
    """Tell whether a build that is not cancelled waits for this job's result."""
    follower = aliased(Job)
    found = session.scalar(
        select(follower.id)
        .join(Build, Build.id == follower.build_id)
        .where(
            follower.joined_to == job.id,
            follower.state == JobState.WAITING,
            Build.state != BuildState.CANCELLED,
        )
        .limit(1)
    )
    return found is not None


def attempt(session: Session, tenant_id: str, job_id: str, number: int) -> Attempt:
    """Return one attempt of a tenant's job.

    Raises:
        NotFound: this tenant has no such attempt (code ``unknown_attempt``).
    """
    row = session.scalar(
        select(Attempt).where(
            Attempt.tenant_id == tenant_id, Attempt.job_id == job_id, Attempt.number == number
        )
    )
    if row is None:
        raise NotFound(
            f"Job {job_id[:40]!r} has no attempt {number}.",
            code="unknown_attempt",
            why="It has not been tried that often, or belongs to another tenant.",
            fix="GET /v1/builds/{id} lists the attempts of each job.",
        )
    return row


def drop(session: Session, job: Job) -> None:
    """Remove a job that was planned and never started."""
    session.delete(job)
    session.flush()
