"""The logs of attempts: the text and the bytes go, the attempt stays."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, select, tuple_

from storage.database import Session, now
from storage.keeping.released import release
from storage.models import Attempt
from storage.retention import Rule, Thing

_KEY = (Attempt.finished_at, Attempt.job_id, Attempt.number)


def page(
    session: Session, before: datetime, after: tuple[object, ...] | None, limit: int
) -> Sequence[Thing]:
    """Return the attempts with a log that ended before a moment."""
    query = _with_log().where(Attempt.finished_at < before).order_by(*_KEY).limit(limit)
    if after is not None:
        query = query.where(tuple_(*_KEY) > after)
    return [_thing(row) for row in session.execute(query)]


def again(session: Session, thing: Thing) -> Thing | None:
    """Look at an attempt anew."""
    _, job_id, number = thing.key
    query = _with_log().where(Attempt.job_id == job_id, Attempt.number == number)
    row = session.execute(query.with_for_update()).one_or_none()
    return None if row is None else _thing(row)


def remove(session: Session, thing: Thing) -> None:
    """Remove a log; whoever asks for it is told when."""
    _, job_id, number = thing.key
    attempt = session.get_one(Attempt, (job_id, number))
    attempt.log_expired_at, attempt.log_tail = now(), ""
    if attempt.log_digest is not None:
        release(session, thing.tenant_id, [attempt.log_digest])


def _with_log() -> Select[*tuple[Any, ...]]:
    return select(*_KEY, Attempt.tenant_id, Attempt.log_size, Attempt.log_digest).where(
        Attempt.log_expired_at.is_(None), Attempt.finished_at.is_not(None)
    )


def _thing(row: Row[*tuple[Any, ...]]) -> Thing:
    return Thing(
        rule=Rule.LOGS,
        tenant_id=row.tenant_id,
        key=(row.finished_at, row.job_id, row.number),
        name=f"{row.job_id} attempt {row.number}",
        since=row.finished_at,
        size=row.log_size or 0,
    )
