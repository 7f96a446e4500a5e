"""Models and datasets: the same bytes twice are one row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from sqlalchemy import Row, cast, func, select
from sqlalchemy.dialects.postgresql import JSONPATH, insert

from enginefarm.errors import NotFound
from storage.database import Session
from storage.models import Dataset, Model

Kept = TypeVar("Kept", Model, Dataset)


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
    row = {"name": name, "size": size, "files": files, "interface": interface}
    existed = _add(session, Model, tenant_id=tenant_id, digest=digest, **row)
    return get_model(session, tenant_id, digest), existed


def get_model(session: Session, tenant_id: str, digest: str) -> Model:
    """Return a tenant's model.

    Raises:
        NotFound: this tenant has no such model (code ``unknown_model``).
    """
    return _get(session, Model, tenant_id, digest, code="unknown_model")


def list_models(
    session: Session, tenant_id: str, limit: int, *, tensors: int = 4
) -> Sequence[Row[Any]]:
    """Return a tenant's models, the newest first, for a list.

    An interface may hold thousands of names: of inputs and outputs the database sends the first
    ``tensors`` and how many there are, and of the files their number.
    """
    first = f"$[0 to {tensors - 1}]"
    inputs, outputs = Model.interface["inputs"], Model.interface["outputs"]
    return session.execute(
        select(
            *(Model.digest, Model.name, Model.size, Model.created_at),
            func.jsonb_array_length(Model.files).label("file_count"),
            func.jsonb_path_query_array(inputs, cast(first, JSONPATH)).label("inputs"),
            func.jsonb_array_length(inputs).label("input_count"),
            func.jsonb_path_query_array(outputs, cast(first, JSONPATH)).label("outputs"),
            func.jsonb_array_length(outputs).label("output_count"),
            Model.interface["opsets"].label("opsets"),
            Model.interface["node_count"].as_integer().label("node_count"),
        )
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
    row = {"name": name, "size": size, "samples": samples, "arrays": arrays}
    existed = _add(session, Dataset, tenant_id=tenant_id, digest=digest, **row)
    return get_dataset(session, tenant_id, digest), existed


def get_dataset(session: Session, tenant_id: str, digest: str) -> Dataset:
    """Return a tenant's dataset.

    Raises:
        NotFound: this tenant has no such dataset (code ``unknown_dataset``).
    """
    return _get(session, Dataset, tenant_id, digest, code="unknown_dataset")


def _add(session: Session, kind: type[Kept], **row: object) -> bool:
    """Add a row unless these bytes have theirs; tell whether they had."""
    added = insert(kind).values(row).on_conflict_do_nothing().returning(kind.digest)
    return session.execute(added).scalar() is None


def _get(session: Session, kind: type[Kept], tenant_id: str, digest: str, *, code: str) -> Kept:
    row = session.scalar(select(kind).where(kind.tenant_id == tenant_id, kind.digest == digest))
    if row is None:
        raise NotFound(
            f"There is no {kind.__name__.lower()} {digest}.",
            code=code,
            why="It was never uploaded here, or belongs to another tenant.",
            fix=f"Upload it with POST /v1/{kind.__tablename__}; the answer names its digest.",
        )
    return row
