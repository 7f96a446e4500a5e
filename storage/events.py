"""What happened to a build, numbered without gaps within it.

The number is taken under the build's row lock, so a watcher who has seen event 7 has seen them
all up to 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select, update

from storage.database import Session, now
from storage.models import Build, Event


def add(
    session: Session,
    tenant_id: str,
    build_id: str,
    kind: str,
    data: dict[str, Any],
    job_id: str | None = None,
) -> None:
    """Append an event to a build."""
    seq = session.execute(
        update(Build)
        .where(Build.id == build_id)
        .values(event_seq=Build.event_seq + 1)
        .returning(Build.event_seq)
        .execution_options(synchronize_session=False)
    ).scalar_one()
    session.add(
        Event(
            build_id=build_id,
            seq=seq,
            tenant_id=tenant_id,
            job_id=job_id,
            kind=kind,
            data=data,
            created_at=now(),
        )
    )


def after(session: Session, tenant_id: str, build_id: str, seq: int, limit: int) -> Sequence[Event]:
    """Return up to ``limit`` events that follow number ``seq``."""
    return session.scalars(
        select(Event)
        .where(Event.tenant_id == tenant_id, Event.build_id == build_id, Event.seq > seq)
        .order_by(Event.seq)
        .limit(limit)
    ).all()
