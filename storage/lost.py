"""Bytes that the bucket has lost: known to be, taken out of the cache, and found again."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select, update

from storage.database import Session, now
from storage.keeping.released import makers
from storage.models import Artifact, ArtifactFile, Blob, Job


def note(session: Session, digest: str) -> bool:
    """Write down that the bucket lacks these bytes; tell whether that is news.

    Nobody takes from the cache what they are a part of: the next build makes it anew. Where no job
    has made them by itself (a report, a config), that is the publish job of their artifact.
    """
    news = session.scalars(
        update(Blob)
        .where(Blob.digest == digest, Blob.lost_at.is_(None))
        .values(lost_at=now())
        .returning(Blob.tenant_id)
    ).all()
    made = [job.id for job in makers(session, digest)]
    if not made:
        named = select(Artifact.job_id).join(
            ArtifactFile,
            (ArtifactFile.tenant_id == Artifact.tenant_id)
            & (ArtifactFile.artifact_digest == Artifact.digest),
        )
        made = list(session.scalars(named.where(ArtifactFile.blob_digest == digest)))
    session.execute(
        update(Job).where(Job.id.in_(made), Job.withdrawn_at.is_(None)).values(withdrawn_at=now())
    )
    return bool(news)


def found(session: Session, digest: str) -> None:
    """Write down that the bucket has these bytes again."""
    session.execute(
        update(Blob).where(Blob.digest == digest, Blob.lost_at.is_not(None)).values(lost_at=None)
    )


def of_artifact(session: Session, tenant_id: str, digest: str) -> Collection[str]:
    """Return the digests of an artifact's files that are known to be lost."""
    return session.scalars(
        select(Blob.digest)
        .join(
            ArtifactFile,
            (ArtifactFile.tenant_id == Blob.tenant_id) & (ArtifactFile.blob_digest == Blob.digest),
        )
        .where(
            ArtifactFile.tenant_id == tenant_id,
            ArtifactFile.artifact_digest == digest,
            Blob.lost_at.is_not(None),
        )
    ).all()
