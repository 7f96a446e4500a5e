"""Artifacts and the statements about them; one artifact for each publish job."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import Select, and_, func, or_, select

from enginefarm.errors import NotFound
from enginefarm.state import ArtifactState
from storage.database import Session, now
from storage.models import Artifact, ArtifactFile, Attestation, Job


def get(session: Session, tenant_id: str, digest: str) -> Artifact:
    """Return a tenant's artifact.

    Raises:
        NotFound: this tenant has no such artifact (code ``unknown_artifact``).
    """
    row = session.scalar(
        select(Artifact).where(Artifact.tenant_id == tenant_id, Artifact.digest == digest)
    )
    if row is None:
        raise NotFound(
            f"There is no artifact {digest[:80]}.",
            code="unknown_artifact",
            why="It was never built here, or belongs to another tenant.",
            fix="GET /v1/builds/{id} names the artifact of each target.",
        )
    return row


def attestations(session: Session, tenant_id: str, digest: str) -> Sequence[Attestation]:
    """Return the signed statements about an artifact, the oldest first."""
    return session.scalars(
        select(Attestation)
        .where(Attestation.tenant_id == tenant_id, Attestation.artifact_digest == digest)
        .order_by(Attestation.id)
    ).all()


def statement(session: Session, tenant_id: str, job_id: str) -> Attestation | None:
    """Return what was signed about what a publish job made."""
    return session.scalar(
        select(Attestation).where(Attestation.tenant_id == tenant_id, Attestation.job_id == job_id)
    )


def add(
    session: Session, artifact: Artifact, blobs: Iterable[str], attestation: Attestation
) -> None:
    """Keep an artifact, the digests its manifest names, and what was signed about it, together."""
    session.add(artifact)
    session.flush()
    session.add_all(
        ArtifactFile(
            tenant_id=artifact.tenant_id, artifact_digest=artifact.digest, blob_digest=digest
        )
        for digest in sorted(set(blobs))
    )
    session.add(attestation)
    session.flush()


def revoke(row: Artifact, reason: str, key_id: str) -> None:
    """Take an artifact back, for good."""
    row.state = ArtifactState.REVOKED
    row.revoked_at, row.revoked_by, row.revoked_reason = now(), key_id, reason


def revoked_with(session: Session, tenant_id: str, digest: str) -> Artifact | None:
    """Return the artifact of the tenant that was revoked last and is, or names, these bytes."""
    found = _with_bytes(tenant_id, digest, ArtifactState.REVOKED)
    return session.scalar(found.order_by(Artifact.revoked_at.desc(), Artifact.digest).limit(1))


def revoked_of(
    session: Session, tenant_id: str, job_ids: Collection[str]
) -> tuple[Artifact, str] | None:
    """Return the artifact that was revoked last with the result of one of some jobs, and that job.

    The jobs are those that did the work, not those that took it from the cache.
    """
    if not job_ids:
        return None
    its = and_(Job.build_id == Artifact.build_id, Job.target == Artifact.target)
    found = session.execute(
        select(Artifact, func.coalesce(Job.cached_from, Job.id))
        .join(Job, its)
        .where(
            Artifact.tenant_id == tenant_id,
            Artifact.state == ArtifactState.REVOKED,
            Job.twin.is_(None),
            Job.withdrawn_at.is_not(None),
            or_(Job.id.in_(job_ids), Job.cached_from.in_(job_ids)),
        )
        .order_by(Artifact.revoked_at.desc(), Artifact.digest, Job.position)
        .limit(1)
    ).one_or_none()
    return None if found is None else (found[0], found[1])


def published_with(session: Session, tenant_id: str, digest: str) -> bool:
    """Tell whether a published artifact of the tenant is, or names, these bytes."""
    found = _with_bytes(tenant_id, digest, ArtifactState.PUBLISHED)
    return session.scalar(found.limit(1)) is not None


def _with_bytes(tenant_id: str, digest: str, state: ArtifactState) -> Select[Artifact]:
    """Find a tenant's artifacts in a state that are, or name, these bytes."""
    its_files = and_(
        ArtifactFile.tenant_id == Artifact.tenant_id,
        ArtifactFile.artifact_digest == Artifact.digest,
    )
    return (
        select(Artifact)
        .outerjoin(ArtifactFile, its_files)
        .where(
            Artifact.tenant_id == tenant_id,
            Artifact.state == state,
            (Artifact.digest == digest) | (ArtifactFile.blob_digest == digest),
        )
    )
