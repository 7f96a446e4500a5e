"""Rings that must be sent, written in the transaction that queued the job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, select

from storage.database import Session, now
from storage.models import Job, Outbox


def add(session: Session, job: Job, not_before: datetime | None = None) -> None:
    """Write down that a queued job must be announced, not before a moment if one is given."""
    session.add(
        Outbox(
            tenant_id=job.tenant_id,
            job=job,
            attempt=job.attempt,
            queue=job.queue,
            not_before=not_before or now(),
        )
    )


def forget(session: Session, before: datetime) -> None:
    """Remove the rings that were sent before a moment."""
    session.execute(delete(Outbox).where(Outbox.sent_at < before))


def due(session: Session, limit: int) -> Sequence[tuple[Outbox, Job]]:
    """Return unsent rings whose time has come, the most urgent first, locked for this sender."""
    rows = session.execute(
        select(Outbox, Job)
        .join(Job, Job.id == Outbox.job_id)
        .where(Outbox.sent_at.is_(None), Outbox.not_before <= now())
        .order_by(Job.priority, Outbox.id)
        .limit(limit)
        .with_for_update(of=Outbox, skip_locked=True)
    )
    return [(ring, job) for ring, job in rows]
