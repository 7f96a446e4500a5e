"""Artifacts and the statements about them; one artifact for each publish job."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from enginefarm.errors import NotFound
from storage.database import Session
from storage.models import Artifact, Attestation


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


def add(session: Session, artifact: Artifact, attestation: Attestation) -> None:
    """Keep an artifact and what was signed about it, together."""
    session.add(artifact)
    session.flush()
    session.add(attestation)
    session.flush()
