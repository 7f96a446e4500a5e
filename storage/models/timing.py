"""Timing caches: for each namespace of a tenant a counter, its snapshots, and who was given one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, Index, String, func, text
from sqlalchemy.orm import Mapped, mapped_column

from storage.models.base import Base


class TimingCache(Base):
    """One namespace: ``generation`` rises with every change and is what compare-and-set compares.

    ``current`` and ``pinned`` are generations of snapshots; ``floor`` is the generation at which it
    was last dropped: what was merged with an earlier one is not taken any more.
    """

    __tablename__ = "timing_caches"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    namespace: Mapped[str] = mapped_column(primary_key=True)
    parts: Mapped[dict[str, Any]]
    generation: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    current: Mapped[int | None]
    pinned: Mapped[int | None]
    floor: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    builds: Mapped[int] = mapped_column(BigInteger, default=0, server_default=text("0"))
    hits: Mapped[int] = mapped_column(BigInteger, default=0, server_default=text("0"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())


class TimingSnapshot(Base):
    """An immutable snapshot. ``state``: kept, quarantined (with ``why``) or removed."""

    __tablename__ = "timing_snapshots"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "namespace"], ["timing_caches.tenant_id", "timing_caches.namespace"]
        ),
        Index("ix_timing_snapshots_tenant_id_digest", "tenant_id", "digest"),
    )

    tenant_id: Mapped[str] = mapped_column(primary_key=True)
    namespace: Mapped[str] = mapped_column(primary_key=True)
    generation: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str]
    size: Mapped[int] = mapped_column(BigInteger)
    entries: Mapped[int]
    state: Mapped[str] = mapped_column(String(16))
    why: Mapped[str | None]
    job_id: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class TimingUse(Base):
    """Which snapshot an attempt was given; no digest: none, or its runtime refused it."""

    __tablename__ = "timing_uses"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    namespace: Mapped[str]
    generation: Mapped[int | None]
    digest: Mapped[str | None]
    refused: Mapped[str | None]
    hits: Mapped[int | None] = mapped_column(BigInteger)
