"""Which bytes in the bucket nobody needs.

Bytes are marked first and removed after a grace. Whoever is about to store bytes takes their mark
away before, under a lock that the removal holds, too: so bytes are never removed between being
found in the bucket and being referred to by a row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import delete, select, text
from sqlalchemy.dialects.postgresql import insert

from enginefarm.digest import hex_of
from enginefarm.state import JobState, UploadState
from storage.database import Session, now
from storage.models import Attempt, Blob, Garbage, Job, Upload

_LOCKS = 1
"""The space of our locks; those of tenants are in the other kind, of one number."""


def keep(session: Session, digests: Collection[str]) -> None:
    """Take away the marks of bytes that are about to be stored or used."""
    _lock(session, digests)
    session.execute(delete(Garbage).where(Garbage.digest.in_(list(digests))))


def mark(session: Session, digests: Collection[str]) -> None:
    """Mark bytes that no row refers to; a mark keeps its first moment."""
    if digests:
        rows = [{"digest": digest, "marked_at": now()} for digest in sorted(digests)]
        session.execute(insert(Garbage).values(rows).on_conflict_do_nothing())


def due(session: Session, before: datetime, limit: int = 100) -> Sequence[str]:
    """Return bytes that were marked before a moment."""
    return session.scalars(
        select(Garbage.digest)
        .where(Garbage.marked_at < before)
        .order_by(Garbage.digest)
        .limit(limit)
    ).all()


def claim(session: Session, digest: str, before: datetime) -> bool:
    """Tell whether bytes may be removed now; until the transaction ends nobody stores them."""
    _lock(session, [digest])
    row = session.get(Garbage, digest, populate_existing=True)
    if row is None or row.marked_at >= before:
        return False
    session.delete(row)
    return not needed(session, [digest])


def needed(session: Session, digests: Collection[str]) -> set[str]:
    """Return those of these bytes that somebody needs.

    A row refers to them, or an attempt or an upload does that has not ended.
    """
    kept = set(session.scalars(select(Blob.digest).where(Blob.digest.in_(list(digests)))))
    places = session.scalars(
        select(Attempt.places)
        .join(Job, Job.id == Attempt.job_id)
        .where(Job.state.in_((JobState.RUNNING, JobState.UPLOADED)), Attempt.number == Job.attempt)
    )
    files = session.scalars(select(Upload.files).where(Upload.state == UploadState.VERIFYING))
    coming = {file["digest"] for row in files for file in row}
    return kept | (coming | {digest for row in places for digest in row}) & set(digests)


def _lock(session: Session, digests: Collection[str]) -> None:
    """Take the locks of these digests, always in the same order.

    Digests share them: however many a transaction names, the database's table of locks has room.
    """
    for number in sorted({int(hex_of(digest)[:3], 16) // 4 for digest in digests}):
        session.execute(
            text("SELECT pg_advisory_xact_lock(:space, :number)"),
            {"space": _LOCKS, "number": number},
        )
