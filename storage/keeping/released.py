"""Take away a tenant's right to bytes that none of its rows refers to any more."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Text,
    and_,
    delete,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from enginefarm.state import JobState
from storage.database import Session
from storage.models import (
    Artifact,
    ArtifactFile,
    Attempt,
    Blob,
    Dataset,
    Job,
    Model,
    TimingSnapshot,
)

OUTPUTS = literal_column("(jobs.result -> 'outputs')", JSONB)
"""The outputs of a job, in the words of their index."""


def release(session: Session, tenant_id: str, digests: Collection[str]) -> None:
    """Forget the tenant's blobs among these that nothing of it refers to.

    The bytes themselves are the sweep's: it finds that no row names them. The caller holds the
    tenant's lock and has written already what no longer refers to them.
    """
    session.flush()
    loose = set(digests) - referred(session, tenant_id, digests)
    session.execute(delete(Blob).where(Blob.tenant_id == tenant_id, Blob.digest.in_(sorted(loose))))


def referred(session: Session, tenant_id: str, digests: Collection[str]) -> set[str]:
    """Return those of these digests that a row of the tenant refers to; each by an index."""
    digest = func.unnest(literal(sorted(set(digests)), ARRAY(Text))).column_valued("asked_for")
    inside = func.jsonb_build_array(func.jsonb_build_object("digest", digest))
    query = select(digest).where(
        or_(
            exists().where(Model.tenant_id == tenant_id, Model.files.contains(inside)),
            exists().where(Dataset.tenant_id == tenant_id, Dataset.digest == digest),
            exists().where(Artifact.tenant_id == tenant_id, Artifact.digest == digest),
            exists().where(ArtifactFile.tenant_id == tenant_id, ArtifactFile.blob_digest == digest),
            exists().where(
                Attempt.tenant_id == tenant_id,
                Attempt.log_digest == digest,
                Attempt.log_expired_at.is_(None),
            ),
            exists().where(Job.tenant_id == tenant_id, _made(inside)),
            exists().where(
                TimingSnapshot.tenant_id == tenant_id,
                TimingSnapshot.digest == digest,
                TimingSnapshot.state != "removed",
            ),
        )
    )
    return set(session.scalars(query))


def makers(session: Session, digest: str, tenant_id: str | None = None) -> list[Job]:
    """Return the jobs, of one tenant or of all, among whose kept outputs these bytes are."""
    inside = literal([{"digest": digest}], JSONB)
    mine = [] if tenant_id is None else [Job.tenant_id == tenant_id]
    return list(session.scalars(select(Job).where(*mine, _made(inside)).order_by(Job.id)))


def _made(inside: ColumnElement[Any]) -> ColumnElement[bool]:
    return and_(
        Job.state == JobState.SUCCEEDED,
        Job.result_expired_at.is_(None),
        OUTPUTS.contains(inside),
    )
