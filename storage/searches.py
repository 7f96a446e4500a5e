"""Searches and their candidates: made once, found by tenant, listed newest first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import func, select

from enginefarm.errors import NotFound
from enginefarm.search import SearchState
from storage.database import Session
from storage.models import Build, Candidate, Search


def get(session: Session, tenant_id: str, search_id: str) -> Search:
    """Return a tenant's search.

    Raises:
        NotFound: this tenant has no such search (code ``unknown_search``).
    """
    row = session.scalar(
        select(Search).where(Search.tenant_id == tenant_id, Search.id == search_id)
    )
    if row is None:
        raise NotFound(
            f"There is no search {search_id[:40]!r}.",
            code="unknown_search",
            why="It was never begun here, or belongs to another tenant.",
            fix="GET /v1/searches lists yours.",
        )
    return row


def find(session: Session, search_id: str) -> Search | None:
    """Return a search, whoever owns it; for the control loops only."""
    return session.get(Search, search_id)


def lock(session: Session, search_id: str) -> Search:
    """Return a search's row as it is now, locked until the transaction ends."""
    return session.scalars(
        select(Search)
        .where(Search.id == search_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    ).one()


def running(session: Session) -> Sequence[str]:
    """Return the searches that are not over, the oldest first."""
    query = select(Search.id).where(Search.state == SearchState.RUNNING)
    return session.scalars(query.order_by(Search.id)).all()


def count_running(session: Session, tenant_id: str) -> int:
    """Return how many searches of a tenant are not over."""
    rows = select(func.count()).select_from(Search)
    found = session.scalar(
        rows.where(Search.state == SearchState.RUNNING, Search.tenant_id == tenant_id)
    )
    return int(found or 0)


def with_idempotency_key(session: Session, tenant_id: str, key: str) -> Search | None:
    """Return the search that was begun under this key."""
    return session.scalar(
        select(Search).where(Search.tenant_id == tenant_id, Search.idempotency_key == key)
    )


def candidates(session: Session, search_id: str) -> Sequence[Candidate]:
    """Return what a search has tried, in order."""
    query = select(Candidate).where(Candidate.search_id == search_id)
    return session.scalars(query.order_by(Candidate.number)).all()


def last_begun(session: Session, search_id: str) -> datetime | None:
    """Return when the newest of a search's builds was begun; None if there is none."""
    rows = select(func.max(Candidate.created_at))
    return session.scalar(
        rows.where(Candidate.search_id == search_id, Candidate.build_id.is_not(None))
    )


def last_moved(session: Session, search_id: str) -> datetime | None:
    """Return when a search's newest build was begun, or its last one ended; None: there is none."""
    query = select(Candidate.created_at, Build.finished_at)
    joined = query.join(Build, Build.id == Candidate.build_id)
    rows = session.execute(joined.where(Candidate.search_id == search_id))
    return max((each for row in rows for each in row if each is not None), default=None)


def candidates_of(session: Session, search_ids: Collection[str]) -> dict[str, list[Candidate]]:
    """Return what each of these searches has tried, in order."""
    query = select(Candidate).where(Candidate.search_id.in_(search_ids))
    found: dict[str, list[Candidate]] = defaultdict(list)
    for row in session.scalars(query.order_by(Candidate.search_id, Candidate.number)):
        found[row.search_id].append(row)
    return found


def page(
    session: Session, tenant_id: str, *, limit: int, before: str | None = None
) -> Sequence[Search]:
    """Return at most ``limit`` searches older than ``before``, the newest first."""
    query = select(Search).where(Search.tenant_id == tenant_id)
    if before is not None:
        query = query.where(Search.id < before)
    return session.scalars(query.order_by(Search.id.desc()).limit(limit)).all()
