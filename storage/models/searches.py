"""Searches and their candidates, which are builds."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from enginefarm.search import SearchState
from storage.models.base import Base, words


class Search(Base):
    """A build whose precision is to be found. Who holds the tenant's lock may change it."""

    __tablename__ = "searches"
    __table_args__ = (
        UniqueConstraint("tenant_id", "idempotency_key"),
        Index("ix_searches_tenant_id_id", "tenant_id", "id"),
        Index("ix_searches_running", "id", postgresql_where=text("state = 'running'")),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    state: Mapped[SearchState] = mapped_column(words(SearchState))
    model_digest: Mapped[str]
    model_name: Mapped[str]
    spec: Mapped[dict[str, Any]]
    api_key_id: Mapped[str | None]
    idempotency_key: Mapped[str | None]
    request_digest: Mapped[str]
    chosen: Mapped[int | None]
    verdict: Mapped[str] = mapped_column(default="", server_default="")
    notes: Mapped[list[Any]] = mapped_column(default=list, server_default=text("'[]'"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    finished_at: Mapped[datetime | None]


class Candidate(Base):
    """One precision that a search tries. Without a build: it was refused, or not tried."""

    __tablename__ = "candidates"

    search_id: Mapped[str] = mapped_column(ForeignKey("searches.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    build_id: Mapped[str | None] = mapped_column(ForeignKey("builds.id"))
    precision: Mapped[dict[str, Any]]
    profile: Mapped[str | None]
    why: Mapped[str]
    outcome: Mapped[dict[str, Any] | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
