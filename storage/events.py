"""What happened to a build, numbered without gaps within it.

The number is taken under the build's row lock, so a watcher who has seen event 7 has seen them
all up to 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import insert, inspect, literal, select, update

from storage.database import Session, now
from storage.models import Build, Event


def add(
    session: Session, build: Build, kind: str, data: dict[str, Any], job_id: str | None = None
) -> None:
    """Append an event to a build.

    A build that this transaction has made is seen by nobody else yet: its events are numbered in
    memory and written together with it.
    """
    told: dict[str, Any] = {
        "build_id": build.id,
        "tenant_id": build.tenant_id,
        "job_id": job_id,
        "kind": kind,
        "data": data,
        "created_at": now(),
    }
    if inspect(build).pending:
        build.event_seq += 1
        session.add(Event(seq=build.event_seq, build=build, **told))
        return
    number = (
        update(Build)
        .where(Build.id == build.id)
        .values(event_seq=Build.event_seq + 1)
        .returning(Build.event_seq)
        .cte("number")
    )
    columns = Event.__table__.c
    values = [literal(value, columns[name].type) for name, value in told.items()]
    session.execute(
        insert(Event).from_select([*told, "seq"], select(*values, number.c.event_seq)),
        execution_options={"synchronize_session": False},
    )


def after(session: Session, tenant_id: str, build_id: str, seq: int, limit: int) -> Sequence[Event]:
    """Return up to ``limit`` events that follow number ``seq``."""
    return session.scalars(
        select(Event)
        .where(Event.tenant_id == tenant_id, Event.build_id == build_id, Event.seq > seq)
        .order_by(Event.seq)
        .limit(limit)
    ).all()
