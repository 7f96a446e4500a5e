"""Who is here and what they brought: tenants, keys, nodes, blobs, models, datasets."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String, func, text
from sqlalchemy.orm import Mapped, mapped_column

from enginefarm.state import NodeState
from storage.models.base import Base, words


class Tenant(Base):
    """Who owns rows."""

    __tablename__ = "tenants"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    weight: Mapped[float] = mapped_column(default=1.0, server_default=text("1"))
    max_running: Mapped[int | None]
    max_unfinished: Mapped[int | None]
    max_bytes: Mapped[int | None] = mapped_column(BigInteger)


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
    former_sha256: Mapped[bytes | None]
    state: Mapped[NodeState] = mapped_column(words(NodeState))
    description: Mapped[dict[str, Any]]
    faults: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    bucket_faults: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    note: Mapped[str | None]
    queues: Mapped[list[Any]]
    enrolled_at: Mapped[datetime] = mapped_column(server_default=func.now())
    last_seen_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Pulse(Base):
    """When a part of the control plane was heard last, and when it was away before that."""

    __tablename__ = "pulses"

    part: Mapped[str] = mapped_column(String(16), primary_key=True)
    beat_at: Mapped[datetime] = mapped_column(server_default=func.now())
    away_from: Mapped[datetime | None]
    back_at: Mapped[datetime | None]


class RetentionRound(Base):
    """What a rule of retention could not read when it was last followed to its end."""

    __tablename__ = "retention_rounds"

    rule: Mapped[str] = mapped_column(String(16), primary_key=True)
    unreadable: Mapped[int]
    ended_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Blob(Base):
    """Bytes in the bucket, by digest, and the tenant that may read them.

    ``lost_at``: since when it is known that the bucket no longer has them.
    """

    __tablename__ = "blobs"
    __table_args__ = (Index("ix_blobs_digest_tenant_id", "digest", "tenant_id"),)

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)
    media_type: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    lost_at: Mapped[datetime | None]


class Expired(Base):
    """A model or dataset that a rule of retention has removed, so that its absence is explained."""

    __tablename__ = "expired"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(16), primary_key=True)
    name: Mapped[str]
    rule: Mapped[str]
    expired_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Garbage(Base):
    """Bytes in the bucket that no row refers to, and since when that is known."""

    __tablename__ = "garbage"

    digest: Mapped[str] = mapped_column(primary_key=True)
    marked_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Model(Base):
    """A model: its digest is that of the canonical list of its files."""

    __tablename__ = "models"
    __table_args__ = (
        Index("ix_models_used_at", "used_at"),
        Index(
            "ix_models_files",
            "files",
            postgresql_using="gin",
            postgresql_ops={"files": "jsonb_path_ops"},
        ),
    )

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    size: Mapped[int] = mapped_column(BigInteger)
    files: Mapped[list[Any]]
    interface: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    used_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Dataset(Base):
    """Named arrays, kept as one ``.npz`` blob without pickles."""

    __tablename__ = "datasets"
    __table_args__ = (Index("ix_datasets_used_at", "used_at"),)

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    size: Mapped[int] = mapped_column(BigInteger)
    samples: Mapped[int]
    arrays: Mapped[list[Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    used_at: Mapped[datetime] = mapped_column(server_default=func.now())
