"""Rings that must be sent, written in the transaction that queued the job."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete

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
