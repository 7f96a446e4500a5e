"""What the rules of retention came upon, for whoever watches the farm from another process."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from storage.database import Session, now
from storage.models import RetentionRound
from storage.retention import Rule


def note(session: Session, rule: Rule, unreadable: int) -> None:
    """Note that a rule was followed to its end, and how many rows it could not read."""
    values = {"unreadable": unreadable, "ended_at": now()}
    session.execute(
        insert(RetentionRound)
        .values(rule=str(rule), **values)
        .on_conflict_do_update(index_elements=[RetentionRound.rule], set_=values)
    )


def unreadable(session: Session) -> dict[str, int]:
    """Return how many rows each rule could not read in its last round."""
    return {row.rule: row.unreadable for row in session.scalars(select(RetentionRound))}
