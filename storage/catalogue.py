"""Models and datasets: the same bytes twice are one row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from enginefarm.errors import NotFound
from storage.database import Session
from storage.models import Dataset, Model


def add_model(
    session: Session,
    tenant_id: str,
    *,
    digest: str,
    name: str,
    size: int,
    files: list[Any],
    interface: dict[str, Any],
) -> tuple[Model, bool]:
    """Keep a model; return it and whether the same bytes were here before."""
    made = session.execute(
        insert(Model)
        .values(
            tenant_id=tenant_id,
            digest=digest,
            name=name,
            size=size,
            files=files,
            interface=interface,
        )
        .on_conflict_do_nothing()
        .returning(Model.digest)
    ).scalar()
    return get_model(session, tenant_id, digest), made is None


def get_model(session: Session, tenant_id: str, digest: str) -> Model:
    """Return a tenant's model.

    Raises:
        NotFound: this tenant has no such model (code ``unknown_model``).
    """
    row = session.scalar(select(Model).where(Model.tenant_id == tenant_id, Model.digest == digest))
    if row is None:
        raise NotFound(
            f"There is no model {digest}.",
            code="unknown_model",
            why="It was never uploaded here, or belongs to another tenant.",
            fix="Upload it with POST /v1/models; the answer names its digest.",
        )
    return row


def list_models(session: Session, tenant_id: str, limit: int) -> Sequence[Model]:
    """Return a tenant's models, the newest first."""
    return session.scalars(
        select(Model)
        .where(Model.tenant_id == tenant_id)
        .order_by(Model.created_at.desc(), Model.digest)
        .limit(limit)
    ).all()


def add_dataset(
    session: Session,
    tenant_id: str,
    *,
    digest: str,
    name: str,
    size: int,
    samples: int,
    arrays: list[Any],
) -> tuple[Dataset, bool]:
    """Keep a dataset; return it and whether the same bytes were here before."""
    made = session.execute(
        insert(Dataset)
        .values(
            tenant_id=tenant_id,
            digest=digest,
            name=name,
            size=size,
            samples=samples,
            arrays=arrays,
        )
        .on_conflict_do_nothing()
        .returning(Dataset.digest)
    ).scalar()
    return get_dataset(session, tenant_id, digest), made is None


def get_dataset(session: Session, tenant_id: str, digest: str) -> Dataset:
    """Return a tenant's dataset.

    Raises:
        NotFound: this tenant has no such dataset (code ``unknown_dataset``).
    """
    row = session.scalar(
        select(Dataset).where(Dataset.tenant_id == tenant_id, Dataset.digest == digest)
    )
    if row is None:
        raise NotFound(
            f"There is no dataset {digest}.",
            code="unknown_dataset",
            why="It was never uploaded here, or belongs to another tenant.",
            fix="Upload it with POST /v1/datasets; the answer names its digest.",
        )
    return row
