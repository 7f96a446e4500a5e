"""What was asked for and how it goes: builds, jobs, attempts, rings, events.

A job's ``state`` is written only through ``tasks.moves`` (compare-and-set on state and attempt).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    Index,
    Integer,
    String,
    UniqueConstraint,
    func,
    literal_column,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column, relationship

from enginefarm.state import BuildState, JobState
from storage.models.base import Base, words


class Build(Base):
    """What a person asked for."""

    __tablename__ = "builds"
    __table_args__ = (
        UniqueConstraint("tenant_id", "idempotency_key"),
        Index("ix_builds_tenant_id_id", "tenant_id", "id"),
        Index("ix_builds_tenant_id_model_digest", "tenant_id", "model_digest"),
        Index("ix_builds_tenant_id_evaluation", "tenant_id", text("(spec ->> 'evaluation')")),
        Index(
            "ix_builds_unpublished",
            "finished_at",
            postgresql_where=text(
                "state IN ('failed', 'cancelled', 'partial') AND results_expired_at IS NULL"
            ),
        ),
        Index(
            "ix_builds_with_events",
            "finished_at",
            postgresql_where=text("events_expired_at IS NULL"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    state: Mapped[BuildState] = mapped_column(words(BuildState))
    model_digest: Mapped[str]
    model_name: Mapped[str]
    spec: Mapped[dict[str, Any]]
    priority: Mapped[int]
    labels: Mapped[dict[str, Any]]
    idempotency_key: Mapped[str | None]
    request_digest: Mapped[str]
    api_key_id: Mapped[str | None]
    search_id: Mapped[str | None] = mapped_column(ForeignKey("searches.id"))
    bumped_at: Mapped[datetime | None]
    event_seq: Mapped[int] = mapped_column(server_default=text("0"), default=0)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    cancelled_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    events_expired_at: Mapped[datetime | None]
    results_expired_at: Mapped[datetime | None]


class Job(Base):
    """One stage of a build on one target."""

    __tablename__ = "jobs"
    __table_args__ = (
        UniqueConstraint("build_id", "target", "position"),
        Index("ix_jobs_state_queue", "state", "queue"),
        Index("ix_jobs_tenant_id_key", "tenant_id", "key"),
        Index("ix_jobs_joined_to", "joined_to"),
        Index("ix_jobs_cached_from", "cached_from"),
        Index(
            "ix_jobs_outputs",
            literal_column("(result -> 'outputs')").label("outputs"),
            postgresql_using="gin",
            postgresql_ops={"outputs": "jsonb_path_ops"},
            postgresql_where=text("state = 'succeeded' AND result_expired_at IS NULL"),
        ),
        Index(
            "ix_jobs_kept_twins",
            "finished_at",
            "id",
            postgresql_where=text(
                "twin IS NOT NULL AND state = 'succeeded' AND cached_from IS NULL"
                " AND result_expired_at IS NULL"
            ),
        ),
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
    twin: Mapped[str | None] = mapped_column(String(16))
    sku: Mapped[str | None] = mapped_column(String(64))
    position: Mapped[int] = mapped_column(Integer)
    state: Mapped[JobState] = mapped_column(words(JobState))
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
    unmeasured: Mapped[str | None]
    result: Mapped[dict[str, Any] | None]
    result_expired_at: Mapped[datetime | None]
    withdrawn_at: Mapped[datetime | None]
    failure: Mapped[dict[str, Any] | None]
    node_id: Mapped[str | None] = mapped_column(ForeignKey("nodes.id"))
    lease_sha256: Mapped[bytes | None]
    lease_until: Mapped[datetime | None]
    cancel_requested_at: Mapped[datetime | None]
    wait_until: Mapped[datetime | None]
    not_before: Mapped[datetime | None]
    limits: Mapped[dict[str, Any]]
    peak_bytes: Mapped[int | None] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    queued_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    beat_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    build: Mapped[Build] = relationship()


class Attempt(Base):
    """One run of a job on one node.

    ``places``: the digests that it may name. ``held``: those of them that its tenant had here
    already, so that they need not be sent.
    """

    __tablename__ = "attempts"
    __table_args__ = (
        Index("ix_attempts_finished_at", "finished_at"),
        Index("ix_attempts_unfinished", "job_id", postgresql_where=text("finished_at IS NULL")),
        Index(
            "ix_attempts_with_log", "finished_at", postgresql_where=text("log_expired_at IS NULL")
        ),
        Index(
            "ix_attempts_log_digest",
            "log_digest",
            postgresql_where=text("log_expired_at IS NULL AND log_digest IS NOT NULL"),
        ),
    )

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    node_id: Mapped[str | None] = mapped_column(ForeignKey("nodes.id"))
    state: Mapped[JobState] = mapped_column(words(JobState))
    failure: Mapped[dict[str, Any] | None]
    machine: Mapped[dict[str, Any] | None]
    log_digest: Mapped[str | None]
    log_size: Mapped[int | None] = mapped_column(BigInteger)
    log_expired_at: Mapped[datetime | None]
    log_tail: Mapped[str] = mapped_column(default="", server_default="")
    lease_sha256: Mapped[bytes | None]
    answered: Mapped[JobState | None] = mapped_column(words(JobState))
    places: Mapped[list[Any]] = mapped_column(default=list, server_default=text("'[]'"))
    held: Mapped[list[Any]] = mapped_column(default=list, server_default=text("'[]'"))
    started_at: Mapped[datetime] = mapped_column(server_default=func.now())
    finished_at: Mapped[datetime | None]


class Peak(Base):
    """The memory that jobs of one kind took at one set of sizes.

    ``enough``: ``peak_bytes`` is the least with which a job succeeded; otherwise the most that one
    needed when it failed for want of memory.
    """

    __tablename__ = "peaks"

    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    likeness: Mapped[str] = mapped_column(primary_key=True)
    sizes_digest: Mapped[str] = mapped_column(primary_key=True)
    sizes: Mapped[list[Any]]
    peak_bytes: Mapped[int] = mapped_column(BigInteger)
    enough: Mapped[bool]
    build_id: Mapped[str]
    measured_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Outbox(Base):
    """A ring that must be sent, written in the transaction that queued the job."""

    __tablename__ = "outbox"
    __table_args__ = (
        Index("ix_outbox_unsent", "id", postgresql_where=text("sent_at IS NULL")),
        Index("ix_outbox_job_id", "job_id"),
        Index("ix_outbox_sent_at", "sent_at", postgresql_where=text("sent_at IS NOT NULL")),
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
