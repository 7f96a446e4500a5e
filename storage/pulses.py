"""Signs of life of the control plane's own parts, so that an absence of theirs is known later."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import case, select
from sqlalchemy.dialects.postgresql import insert

from storage.database import Session, now
from storage.models import Pulse


def beat(session: Session, part: str, gap_s: float) -> None:
    """Note that a part lives; if it was not heard for longer than a gap, also since when."""
    moment = now()
    silent = Pulse.beat_at < moment - timedelta(seconds=gap_s)
    session.execute(
        insert(Pulse)
        .values(part=part, beat_at=moment)
        .on_conflict_do_update(
            index_elements=[Pulse.part],
            set_={
                "beat_at": moment,
                "away_from": case((silent, Pulse.beat_at), else_=Pulse.away_from),
                "back_at": case((silent, moment), else_=Pulse.back_at),
            },
        )
    )


def of_all(session: Session) -> Sequence[Pulse]:
    """Return the pulse of each part."""
    return session.scalars(select(Pulse).order_by(Pulse.part)).all()
