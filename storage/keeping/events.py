"""The events of builds that have ended; where each job got to stands in its row.

A build that was cancelled may have jobs that go on for others, and tell their end: its events go
when the last of them has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, delete, exists, select, tuple_

from storage import jobs
from storage.database import Session, now
from storage.models import Build, Event, Job
from storage.retention import Rule, Thing

_KEY = (Build.finished_at, Build.id)


def page(
    session: Session, before: datetime, after: tuple[object, ...] | None, limit: int
) -> Sequence[Thing]:
    """Return the builds with events that ended before a moment."""
    query = _with_events().where(Build.finished_at < before).order_by(*_KEY).limit(limit)
    if after is not None:
        query = query.where(tuple_(*_KEY) > after)
    return [_thing(row) for row in session.execute(query)]


def again(session: Session, thing: Thing) -> Thing | None:
    """Look at a build anew."""
    query = _with_events().where(Build.id == thing.key[-1]).with_for_update()
    row = session.execute(query).one_or_none()
    return None if row is None else _thing(row)


def remove(session: Session, thing: Thing) -> None:
    """Remove a build's events; the number of the last one stays, so that none is given twice."""
    build = session.get_one(Build, thing.key[-1])
    build.events_expired_at = now()
    session.execute(delete(Event).where(Event.build_id == build.id))


def _with_events() -> Select[*tuple[Any, ...]]:
    going_on = exists().where(Job.build_id == Build.id, Job.state.in_(jobs.LIVE))
    return select(*_KEY, Build.tenant_id, going_on.label("live")).where(
        Build.events_expired_at.is_(None), Build.finished_at.is_not(None)
    )


def _thing(row: Row[*tuple[Any, ...]]) -> Thing:
    return Thing(
        rule=Rule.EVENTS,
        tenant_id=row.tenant_id,
        key=(row.finished_at, row.id),
        name=row.id,
        since=row.finished_at,
        live=row.live,
    )
