"""Timing caches in the database: the newest snapshot of a namespace moves by compare-and-set.

Whoever offers a merge says on which generation it rests. If that is no longer the newest, nothing
is written and the offer is made again, merged with what has come meanwhile: no entry is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert

from storage.database import Session, now
from storage.keeping.released import release
from storage.models import TimingCache, TimingSnapshot, TimingUse

KEPT, QUARANTINED, REMOVED = "kept", "quarantined", "removed"
MOST_KEPT = 8
"""Snapshots of a namespace that stay, beside the pinned one; older ones are in newer ones whole."""


@dataclass(frozen=True)
class Made:
    """A snapshot that was offered."""

    digest: str
    size: int
    entries: int
    job_id: str


def ensure(session: Session, tenant_id: str, namespace: str, parts: dict[str, Any]) -> TimingCache:
    """Return a namespace of a tenant, which is made if it is new."""
    row = insert(TimingCache).values(tenant_id=tenant_id, namespace=namespace, parts=parts)
    session.execute(row.on_conflict_do_nothing())
    return session.get_one(TimingCache, (tenant_id, namespace), populate_existing=True)


def find(session: Session, tenant_id: str, namespace: str) -> TimingCache | None:
    """Return a tenant's namespace as it is now."""
    return session.get(TimingCache, (tenant_id, namespace), populate_existing=True)


def listed(session: Session, tenant_id: str) -> Sequence[TimingCache]:
    """Return a tenant's namespaces, the newest first."""
    query = select(TimingCache).where(TimingCache.tenant_id == tenant_id)
    return session.scalars(query.order_by(TimingCache.updated_at.desc())).all()


def snapshots(session: Session, cache: TimingCache) -> Sequence[TimingSnapshot]:
    """Return a namespace's snapshots, the newest first."""
    query = select(TimingSnapshot).where(*_of(cache)).order_by(TimingSnapshot.generation.desc())
    return session.scalars(query).all()


def given(session: Session, cache: TimingCache) -> TimingSnapshot | None:
    """Return the snapshot that a build is given: the pinned one, else the newest."""
    wanted = cache.current if cache.pinned is None else cache.pinned
    if wanted is None:
        return None
    return session.get(TimingSnapshot, (cache.tenant_id, cache.namespace, wanted))


def note_use(
    session: Session, cache: TimingCache, job_id: str, attempt: int, was: TimingSnapshot | None
) -> None:
    """Remember which snapshot an attempt was given last: its engine's provenance names it."""
    session.merge(
        TimingUse(
            job_id=job_id,
            attempt=attempt,
            tenant_id=cache.tenant_id,
            namespace=cache.namespace,
            generation=None if was is None else was.generation,
            digest=None if was is None else was.digest,
        )
    )


def use_of(session: Session, job_id: str, attempt: int) -> TimingUse | None:
    """Return what an attempt was given, if anything."""
    return session.get(TimingUse, (job_id, attempt))


def advance(session: Session, cache: TimingCache, base: int, made: Made) -> bool:
    """Make an offer the newest snapshot if the namespace still is at ``base``; tell whether."""
    moved = _moved(session, cache, base, current=base + 1)
    if not moved:
        return False
    session.add(
        TimingSnapshot(
            tenant_id=cache.tenant_id,
            namespace=cache.namespace,
            generation=base + 1,
            digest=made.digest,
            size=made.size,
            entries=made.entries,
            state=KEPT,
            job_id=made.job_id,
        )
    )
    session.flush()
    _forget_oldest(session, cache)
    return True


def _moved(session: Session, cache: TimingCache, base: int, **values: int | None) -> bool:
    done = session.scalar(
        update(TimingCache)
        .where(
            TimingCache.tenant_id == cache.tenant_id,
            TimingCache.namespace == cache.namespace,
            TimingCache.generation == base,
        )
        .values(generation=base + 1, updated_at=now(), **values)
        .returning(TimingCache.generation)
        .execution_options(synchronize_session=False)
    )
    session.expire(cache)
    return done is not None


def count(session: Session, use: TimingUse, hits: int | None) -> None:
    """Count the build of an attempt, once, and the entries that served it."""
    if use.hits is not None or hits is None:
        return
    use.hits = hits
    session.execute(
        update(TimingCache)
        .where(TimingCache.tenant_id == use.tenant_id, TimingCache.namespace == use.namespace)
        .values(builds=TimingCache.builds + 1, hits=TimingCache.hits + hits)
        .execution_options(synchronize_session=False)
    )


def quarantine(session: Session, cache: TimingCache, snapshot: TimingSnapshot, why: str) -> None:
    """Let nobody have a snapshot any more; the newest of the others takes its place.

    To be looked into, the newest quarantined ones stay, as many as of those that are given out;
    of older ones it is known only that nobody may offer them again.
    """
    snapshot.state, snapshot.why = QUARANTINED, why
    session.flush()
    newest = session.scalar(
        select(func.max(TimingSnapshot.generation)).where(*_of(cache), TimingSnapshot.state == KEPT)
    )
    pinned = None if cache.pinned == snapshot.generation else cache.pinned
    _moved(session, cache, cache.generation, current=newest, pinned=pinned)
    _remove(session, cache, _in_state(session, cache, QUARANTINED)[MOST_KEPT:])


def pin(session: Session, cache: TimingCache, generation: int | None) -> None:
    """Give every build one snapshot from now on, and take no offers; None: the newest again."""
    cache.pinned, cache.updated_at = generation, now()
    session.flush()


def drop(session: Session, cache: TimingCache) -> None:
    """Forget every snapshot. What is being merged with one of them is not taken afterwards."""
    floor = cache.generation + 1
    _moved(session, cache, cache.generation, current=None, pinned=None, floor=floor)
    _remove(session, cache, [row for row in snapshots(session, cache) if row.state != REMOVED])


def _forget_oldest(session: Session, cache: TimingCache) -> None:
    kept = _in_state(session, cache, KEPT)
    _remove(session, cache, [row for row in kept[MOST_KEPT:] if row.generation != cache.pinned])


def _in_state(session: Session, cache: TimingCache, state: str) -> list[TimingSnapshot]:
    return [row for row in snapshots(session, cache) if row.state == state]


def _remove(session: Session, cache: TimingCache, rows: Sequence[TimingSnapshot]) -> None:
    for row in rows:
        row.state = REMOVED
    release(session, cache.tenant_id, {row.digest for row in rows})


def _of(cache: TimingCache) -> tuple[Any, ...]:
    return (
        TimingSnapshot.tenant_id == cache.tenant_id,
        TimingSnapshot.namespace == cache.namespace,
    )
