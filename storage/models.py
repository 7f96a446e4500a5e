"""The rows. Every row that belongs to somebody carries its tenant.

A job's ``state`` is written only through ``tasks.moves`` (compare-and-set on state and attempt).
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from sqlalchemy import (
    BigInteger,
    DateTime,
    Enum,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from enginefarm.state import ArtifactState, BuildState, JobState, NodeState


class Base(DeclarativeBase):
    """Base of all rows; constraint names are fixed so that migrations can name them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: DateTime(timezone=True),
        dict[str, Any]: JSONB,
        list[Any]: JSONB,
        str: Text,
        bytes: LargeBinary,
    }


def _words(states: type[StrEnum]) -> Enum:
    """Return a text column that reads and writes the members of ``states`` and nothing else."""
    return Enum(
        states,
        native_enum=False,
        length=16,
        values_callable=lambda members: [member.value for member in members],
    )


class Tenant(Base):
    """Who owns rows."""

    __tablename__ = "tenants"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class ApiKey(Base):
    """An access key; only the sha256 of its secret is kept."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), index=True)
    name: Mapped[str]
    secret_sha256: Mapped[bytes]
    scopes: Mapped[list[Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]


class Node(Base):
    """A machine that takes jobs. Nodes serve every tenant."""

    __tablename__ = "nodes"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    credential_sha256: Mapped[bytes]
    state: Mapped[NodeState] = mapped_column(_words(NodeState))
    description: Mapped[dict[str, Any]]
    queues: Mapped[list[Any]]
    enrolled_at: Mapped[datetime] = mapped_column(server_default=func.now())
    last_seen_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Blob(Base):
    """Bytes in the bucket, by digest, and the tenant that may read them."""

    __tablename__ = "blobs"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    media_type: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Model(Base):
    """A model: its digest is that of the canonical list of its files."""

    __tablename__ = "models"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    size: Mapped[int] = mapped_column(BigInteger)
    files: Mapped[list[Any]]
    interface: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Dataset(Base):
    """Named arrays, kept as one ``.npz`` blob without pickles."""

    __tablename__ = "datasets"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    size: Mapped[int] = mapped_column(BigInteger)
    samples: Mapped[int]
    arrays: Mapped[list[Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Build(Base):
    """What a person asked for."""

    __tablename__ = "builds"
    __table_args__ = (
        UniqueConstraint("tenant_id", "idempotency_key"),
        Index("ix_builds_tenant_id_id", "tenant_id", "id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    state: Mapped[BuildState] = mapped_column(_words(BuildState))
    model_digest: Mapped[str]
    model_name: Mapped[str]
    spec: Mapped[dict[str, Any]]
    priority: Mapped[int]
    labels: Mapped[dict[str, Any]]
    idempotency_key: Mapped[str | None]
    request_digest: Mapped[str]
    event_seq: Mapped[int] = mapped_column(server_default=text("0"), default=0)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    cancelled_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class Job(Base):
    """One stage of a build on one target."""

    __tablename__ = "jobs"
    __table_args__ = (
        UniqueConstraint("build_id", "target", "stage"),
        Index("ix_jobs_state_queue", "state", "queue"),
        Index("ix_jobs_tenant_id_key", "tenant_id", "key"),
        Index("ix_jobs_joined_to", "joined_to"),
        Index(
            "uq_jobs_live_key",
            "tenant_id",
            "key",
            unique=True,
            postgresql_where=text(
                "key IS NOT NULL AND joined_to IS NULL "
                "AND state IN ('queued', 'running', 'uploaded')"
            ),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    build_id: Mapped[str] = mapped_column(ForeignKey("builds.id"))
    target: Mapped[str]
    stage: Mapped[str] = mapped_column(String(16))
    position: Mapped[int] = mapped_column(Integer)
    state: Mapped[JobState] = mapped_column(_words(JobState))
    attempt: Mapped[int] = mapped_column(default=0)
    failures: Mapped[int] = mapped_column(default=0)
    priority: Mapped[int]
    key: Mapped[str | None]
    recipe: Mapped[dict[str, Any] | None]
    queue: Mapped[str | None]
    backend_version: Mapped[str | None]
    cached_from: Mapped[str | None]
    joined_to: Mapped[str | None]
    note: Mapped[str | None]
    result: Mapped[dict[str, Any] | None]
    failure: Mapped[dict[str, Any] | None]
    node_id: Mapped[str | None] = mapped_column(ForeignKey("nodes.id"))
    lease_sha256: Mapped[bytes | None]
    lease_until: Mapped[datetime | None]
    cancel_requested_at: Mapped[datetime | None]
    wait_until: Mapped[datetime | None]
    not_before: Mapped[datetime | None]
    limits: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    queued_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    beat_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    build: Mapped[Build] = relationship()


class Attempt(Base):
    """One run of a job on one node."""

    __tablename__ = "attempts"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    node_id: Mapped[str | None] = mapped_column(ForeignKey("nodes.id"))
    state: Mapped[JobState] = mapped_column(_words(JobState))
    failure: Mapped[dict[str, Any] | None]
    machine: Mapped[dict[str, Any] | None]
    log_digest: Mapped[str | None]
    log_size: Mapped[int | None] = mapped_column(BigInteger)
    log_tail: Mapped[str] = mapped_column(default="", server_default="")
    started_at: Mapped[datetime] = mapped_column(server_default=func.now())
    finished_at: Mapped[datetime | None]


class Outbox(Base):
    """A ring that must be sent, written in the transaction that queued the job."""

    __tablename__ = "outbox"
    __table_args__ = (
        Index("ix_outbox_unsent", "id", postgresql_where=text("sent_at IS NULL")),
        Index("ix_outbox_job_id", "job_id"),
    )

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    attempt: Mapped[int]
    queue: Mapped[str]
    not_before: Mapped[datetime] = mapped_column(server_default=func.now())
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    sent_at: Mapped[datetime | None]

    job: Mapped[Job] = relationship()


class Event(Base):
    """What happened to a build, numbered without gaps within it."""

    __tablename__ = "events"

    build_id: Mapped[str] = mapped_column(ForeignKey("builds.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    job_id: Mapped[str | None]
    kind: Mapped[str] = mapped_column(String(16))
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())

    build: Mapped[Build] = relationship()


class Artifact(Base):
    """A manifest by its digest, and whether deployers may have it."""

    __tablename__ = "artifacts"
    __table_args__ = (Index("ix_artifacts_build_id", "build_id"),)

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[ArtifactState] = mapped_column(_words(ArtifactState))
    build_id: Mapped[str] = mapped_column(ForeignKey("builds.id"))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), unique=True)
    target: Mapped[str]
    model_digest: Mapped[str]
    model_name: Mapped[str]
    manifest: Mapped[bytes]
    report: Mapped[dict[str, Any] | None]
    size: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


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
