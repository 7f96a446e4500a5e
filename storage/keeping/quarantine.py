"""The engines of quarantined artifacts; manifest, report and attestation stay.

Those of candidates of a search have a rule of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, delete, func, or_, select, tuple_

from enginefarm.errors import VerificationFailed
from enginefarm.manifest import PAGE_TYPE, REPORT_TYPE, read_manifest
from enginefarm.state import ArtifactState
from storage import catalogue, jobs
from storage.database import Session, now
from storage.keeping import results
from storage.keeping.released import makers, release
from storage.models import Artifact, ArtifactFile, Build, Job
from storage.retention import Rule, Thing

_REPORTS = frozenset({REPORT_TYPE, PAGE_TYPE})
_KEY = (Artifact.created_at, Artifact.tenant_id, Artifact.digest)


def page(
    session: Session, before: datetime, after: tuple[object, ...] | None, limit: int
) -> Sequence[Thing]:
    """Return the quarantined artifacts with an engine that were made before a moment."""
    query = older(_of_no_search(), before, after, limit)
    return [thing_of(session, Rule.QUARANTINED, row) for row in session.execute(query)]


def again(session: Session, thing: Thing) -> Thing | None:
    """Look at an artifact anew."""
    row = session.execute(the_same(_of_no_search(), thing)).one_or_none()
    return None if row is None else thing_of(session, Rule.QUARANTINED, row)


def older(
    query: Select[*tuple[Any, ...]], before: datetime, after: tuple[object, ...] | None, limit: int
) -> Select[*tuple[Any, ...]]:
    """Narrow a query of artifacts to those made before a moment, in their order."""
    query = query.where(Artifact.created_at < before).order_by(*_KEY).limit(limit)
    return query if after is None else query.where(tuple_(*_KEY) > after)


def the_same(query: Select[*tuple[Any, ...]], thing: Thing) -> Select[*tuple[Any, ...]]:
    """Narrow a query of artifacts to the one that a thing is, locked."""
    _, tenant_id, digest = thing.key
    mine = query.where(Artifact.tenant_id == tenant_id, Artifact.digest == digest)
    return mine.with_for_update(of=Artifact)


def remove(session: Session, thing: Thing) -> None:
    """Remove an artifact's engine; whoever asks for it is told when."""
    _, tenant_id, digest = thing.key
    artifact = session.get_one(Artifact, (tenant_id, digest))
    artifact.engine_expired_at = now()
    engines = _engines(artifact.manifest)
    session.execute(
        delete(ArtifactFile).where(
            ArtifactFile.tenant_id == tenant_id,
            ArtifactFile.artifact_digest == digest,
            ArtifactFile.blob_digest.in_(list(engines)),
        )
    )
    for engine in engines:
        if not _named_elsewhere(session, thing.tenant_id, engine):
            results.expire(session, makers(session, engine, thing.tenant_id))
        catalogue.note_expired(
            session, thing.tenant_id, "blobs", engine, name=thing.name, rule=thing.rule
        )
    release(session, thing.tenant_id, list(engines))


def _engines(manifest: bytes) -> dict[str, int]:
    """Return the digests and sizes of all files but config and report."""
    layers = read_manifest(manifest).layers
    return {row.digest: row.size for row in layers if row.media_type not in _REPORTS}


def _named_elsewhere(session: Session, tenant_id: str, digest: str) -> bool:
    query = select(func.count()).where(
        ArtifactFile.tenant_id == tenant_id, ArtifactFile.blob_digest == digest
    )
    return bool(session.scalar(query))


def _of_no_search() -> Select[*tuple[Any, ...]]:
    return with_engine().where(Artifact.search_id.is_(None))


def with_engine() -> Select[*tuple[Any, ...]]:
    """Return the query of the quarantined artifacts whose engines are kept still."""
    return select(*_KEY, Artifact.manifest, Artifact.build_id).where(
        Artifact.state == ArtifactState.QUARANTINED, Artifact.engine_expired_at.is_(None)
    )


def _comparing(session: Session, tenant_id: str, digest: str) -> Sequence[str]:
    """Return the builds that are to run an artifact's engine beside another."""
    sides = (Build.spec["compare", side].as_string() == digest for side in ("first", "second"))
    query = select(Build.id).join(Job, Job.build_id == Build.id)
    live = query.where(Job.tenant_id == tenant_id, Job.state.in_(jobs.LIVE), or_(*sides))
    return session.scalars(live.distinct()).all()


def thing_of(session: Session, rule: Rule, row: Row[*tuple[Any, ...]]) -> Thing:
    """Return an artifact as a rule wants it; one that cannot be read says so, and stays."""
    thing = Thing(
        rule=rule,
        tenant_id=row.tenant_id,
        key=(row.created_at, row.tenant_id, row.digest),
        name=row.digest,
        since=row.created_at,
    )
    try:
        engines = _engines(row.manifest)
    except VerificationFailed as error:
        return replace(thing, unreadable=error.why)
    made = [job for engine in engines for job in makers(session, engine, row.tenant_id)]
    users = [*(job.build_id for job in made), *_comparing(session, row.tenant_id, row.digest)]
    found = results.with_builds(session, thing, users)
    return replace(found, size=sum(engines.values()))
