"""What candidates of a search have made, but for the one that it chose.

The engine of a candidate's artifact goes, and all that its build made by itself and that nothing
which is out has taken; manifest, report and attestation stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select

from storage.database import Session
from storage.keeping import quarantine, results
from storage.models import Artifact, Search
from storage.retention import Rule, Thing


def page(
    session: Session, before: datetime, after: tuple[object, ...] | None, limit: int
) -> Sequence[Thing]:
    """Return the candidates with an engine that were made before a moment."""
    rows = session.execute(quarantine.older(_of_searches(), before, after, limit))
    return [_thing(session, row) for row in rows]


def again(session: Session, thing: Thing) -> Thing | None:
    """Look at a candidate anew."""
    row = session.execute(quarantine.the_same(_of_searches(), thing)).one_or_none()
    return None if row is None else _thing(session, row)


def remove(session: Session, thing: Thing) -> None:
    """Remove what a candidate has made; whoever asks for its engine is told when."""
    _, tenant_id, digest = thing.key
    build_id = session.get_one(Artifact, (tenant_id, digest)).build_id
    quarantine.remove(session, thing)
    results.remove_of(session, build_id)


def _of_searches() -> Select[*tuple[Any, ...]]:
    told = quarantine.with_engine().add_columns(Search.finished_at)
    return told.join(Search, Search.id == Artifact.search_id)


def _thing(session: Session, row: Row[*tuple[Any, ...]]) -> Thing:
    """Add until when its search may choose it, and who else uses what its build has made."""
    thing = quarantine.thing_of(session, Rule.CANDIDATES, row)
    users = results.users_of(session, row.build_id)
    found = results.with_builds(session, thing, users)
    ends = () if row.finished_at is None else (row.finished_at,)
    return replace(
        found,
        uses=(*thing.uses, *found.uses, *ends),
        live=thing.live or found.live or row.finished_at is None,
    )
