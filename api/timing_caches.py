"""Timing caches: what builds have left for the next, held or dropped by hand."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from api.auth import Entrance, needs
from api.openapi import KEYED, problems
from api.parameters import DigestPath
from enginefarm.errors import InvalidRequest, NotFound
from enginefarm.state import Scope
from enginefarm.timing_views import TimingCacheView, TimingPin, TimingSnapshotView
from storage import builds, timing_caches
from storage.database import Session
from storage.models import TimingCache, TimingSnapshot

router = APIRouter(prefix="/v1/timing-caches", tags=["farm"])
Reader = Annotated[Entrance, Depends(needs(Scope.READ, Scope.SUBMIT))]
Writer = Annotated[Entrance, Depends(needs(Scope.SUBMIT))]


@router.get("", summary="List timing caches", responses=problems(*KEYED))
def list_caches(entrance: Reader) -> list[TimingCacheView]:
    """Return the tenant's timing caches, the one that changed last first."""
    with entrance.transaction() as (session, caller):
        return [_view(row, []) for row in timing_caches.listed(session, caller.tenant_id)]


@router.get("/{digest}", summary="Show a timing cache", responses=problems(*KEYED, 404))
def show(digest: DigestPath, entrance: Reader) -> TimingCacheView:
    """Return one namespace and its snapshots."""
    with entrance.transaction() as (session, caller):
        return _whole(session, _cache(session, caller.tenant_id, digest))


@router.post("/{digest}/pin", summary="Hold a snapshot", responses=problems(*KEYED, 400, 404))
def pin(digest: DigestPath, wanted: TimingPin, entrance: Writer) -> TimingCacheView:
    """Give every build one snapshot, and take no merges; null: the newest again."""
    with entrance.transaction() as (session, caller):
        builds.lock_tenant(session, caller.tenant_id)
        cache = _cache(session, caller.tenant_id, digest)
        kept = {
            row.generation
            for row in timing_caches.snapshots(session, cache)
            if row.state == timing_caches.KEPT
        }
        if wanted.generation is not None and wanted.generation not in kept:
            raise InvalidRequest(
                f"The timing cache has no snapshot {wanted.generation} that could be held.",
                code="timing_snapshot_missing",
                why=f"It has {', '.join(map(str, sorted(kept))) or 'none'}.",
                fix="Name one of these.",
            )
        timing_caches.pin(session, cache, wanted.generation)
        return _whole(session, cache)


@router.post("/{digest}/drop", summary="Drop a timing cache", responses=problems(*KEYED, 404))
def drop(digest: DigestPath, entrance: Writer) -> TimingCacheView:
    """Forget every snapshot of a namespace; builds begin it anew."""
    with entrance.transaction() as (session, caller):
        builds.lock_tenant(session, caller.tenant_id)
        cache = _cache(session, caller.tenant_id, digest)
        timing_caches.drop(session, cache)
        return _whole(session, cache)


def _cache(session: Session, tenant_id: str, namespace: str) -> TimingCache:
    found = timing_caches.find(session, tenant_id, namespace)
    if found is None:
        raise NotFound(
            f"There is no timing cache {namespace}.", fix="Look at: enginefarm timing-cache list"
        )
    return found


def _whole(session: Session, row: TimingCache) -> TimingCacheView:
    return _view(row, [_snapshot(each) for each in timing_caches.snapshots(session, row)])


def _view(row: TimingCache, snapshots: list[TimingSnapshotView]) -> TimingCacheView:
    return TimingCacheView(
        namespace=row.namespace,
        backend=row.parts["backend"],
        version=row.parts["version"],
        cuda=row.parts["cuda"],
        gpu=row.parts["gpu"],
        flags=row.parts["flags"],
        generation=row.generation,
        current=row.current,
        pinned=row.pinned,
        builds=row.builds,
        hits=row.hits,
        created_at=row.created_at,
        updated_at=row.updated_at,
        snapshots=snapshots,
    )


def _snapshot(row: TimingSnapshot) -> TimingSnapshotView:
    return TimingSnapshotView(
        generation=row.generation,
        digest=row.digest,
        size=row.size,
        entries=row.entries,
        state=row.state,
        why=row.why,
        job_id=row.job_id,
        created_at=row.created_at,
    )
