"""Uploads in parts: what was declared, and which digest each part was announced with."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, func, text
from sqlalchemy.orm import Mapped, mapped_column

from enginefarm.state import UploadState
from storage.models.base import Base, words


class Upload(Base):
    """A declared model whose bytes come in parts.

    ``attempts`` counts who has begun to verify it, and only the last of them may end it; who finds
    the farm's own services away takes its count back.
    ``unread_since``: when no process that would read it could be started, for the first time.
    ``cleared``: the bucket holds nothing of it any more but blobs.
    """

    __tablename__ = "uploads"

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), index=True)
    name: Mapped[str]
    state: Mapped[UploadState] = mapped_column(words(UploadState))
    files: Mapped[list[Any]]
    transfers: Mapped[dict[str, Any]]
    size: Mapped[int] = mapped_column(BigInteger)
    verified_bytes: Mapped[int] = mapped_column(BigInteger, default=0, server_default=text("0"))
    model: Mapped[str | None]
    failure: Mapped[dict[str, Any] | None]
    attempts: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    leased_until: Mapped[datetime | None]
    unread_since: Mapped[datetime | None]
    cleared: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    touched_at: Mapped[datetime] = mapped_column(server_default=func.now())


class UploadPart(Base):
    """A part as it was announced; whether it is here, only the bucket knows."""

    __tablename__ = "upload_parts"

    upload_id: Mapped[str] = mapped_column(
        ForeignKey("uploads.id", ondelete="CASCADE"), primary_key=True
    )
    file: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str]
