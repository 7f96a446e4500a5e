"""What came of it and who vouches for it: artifacts, attestations, signing keys."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from enginefarm.state import ArtifactState
from storage.models.base import Base, words


class Artifact(Base):
    """A manifest by its digest, and whether deployers may have it.

    ``search_id``: it is a candidate of that search, which lets out the one that it chooses.
    ``revoked_by``: the id of the access key with which it was taken back.
    """

    __tablename__ = "artifacts"
    __table_args__ = (
        Index("ix_artifacts_build_id", "build_id"),
        Index("ix_artifacts_tenant_id_model_digest", "tenant_id", "model_digest"),
        Index(
            "ix_artifacts_quarantined",
            "created_at",
            postgresql_where=text("state = 'quarantined' AND engine_expired_at IS NULL"),
        ),
    )

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[ArtifactState] = mapped_column(words(ArtifactState))
    build_id: Mapped[str] = mapped_column(ForeignKey("builds.id"))
    search_id: Mapped[str | None] = mapped_column(ForeignKey("searches.id"))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), unique=True)
    target: Mapped[str]
    model_digest: Mapped[str]
    model_name: Mapped[str]
    manifest: Mapped[bytes]
    report: Mapped[dict[str, Any] | None]
    size: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    engine_expired_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    revoked_by: Mapped[str | None]
    revoked_reason: Mapped[str | None]


class ArtifactFile(Base):
    """Which blobs an artifact's manifest names: its config, its engine, its report."""

    __tablename__ = "artifact_files"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "artifact_digest"], ["artifacts.tenant_id", "artifacts.digest"]
        ),
    )

    tenant_id: Mapped[str] = mapped_column(primary_key=True)
    blob_digest: Mapped[str] = mapped_column(primary_key=True)
    artifact_digest: Mapped[str] = mapped_column(primary_key=True)


class Attestation(Base):
    """A signed statement about an artifact; one per publish job and predicate type."""

    __tablename__ = "attestations"
    __table_args__ = (UniqueConstraint("job_id", "predicate_type"),)

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    artifact_digest: Mapped[str] = mapped_column(index=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    predicate_type: Mapped[str]
    keyid: Mapped[str]
    bundle: Mapped[bytes]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class SigningKey(Base):
    """A public key of the farm and what it signs for."""

    __tablename__ = "signing_keys"

    keyid: Mapped[str] = mapped_column(primary_key=True)
    public_key: Mapped[str]
    builders: Mapped[list[Any]]
    not_before: Mapped[datetime] = mapped_column(server_default=func.now())
    not_after: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
