"""Models and datasets: the same bytes twice are one row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

from sqlalchemy import Row, cast, delete, func, select, update
from sqlalchemy.dialects.postgresql import JSONPATH, insert

from enginefarm.errors import NotFound
from storage.database import Session, now
from storage.models import Dataset, Expired, Model
from storage.retention import Rule, setting_of

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
        NotFound: this tenant has no such model (``unknown_model``), or no longer
            (``model_expired``).
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
        NotFound: this tenant has no such dataset (``unknown_dataset``), or no longer
            (``dataset_expired``).
    """
    return _get(session, Dataset, tenant_id, digest, code="unknown_dataset")


def expired(session: Session, tenant_id: str, kind: str, digest: str) -> Expired | None:
    """Return what is known of a model, dataset or engine that a rule has removed."""
    return session.get(Expired, (tenant_id, digest, kind))


def note_expired(
    session: Session, tenant_id: str, kind: str, digest: str, *, name: str, rule: Rule
) -> None:
    """Remember that a rule has removed something, and when."""
    row = {
        "tenant_id": tenant_id,
        "digest": digest,
        "kind": kind,
        "name": name,
        "rule": str(rule),
        "expired_at": now(),
    }
    keys = ["tenant_id", "digest", "kind"]
    session.execute(
        insert(Expired).values(row).on_conflict_do_update(index_elements=keys, set_=row)
    )


def touch(session: Session, row: Model | Dataset) -> None:
    """Note that somebody is about to use a model or dataset; once a day is enough."""
    if row.used_at < now() - timedelta(days=1):
        kind = type(row)
        mine = (kind.tenant_id == row.tenant_id, kind.digest == row.digest)
        session.execute(update(kind).where(*mine).values(used_at=now()))


def _add(session: Session, kind: type[Kept], **row: object) -> bool:
    """Add a row unless these bytes have theirs; tell whether they had. Either way it is used now.

    The caller holds the tenant's lock: what retention removes cannot come between.
    """
    row["used_at"] = now()
    again = insert(kind).values(row)
    again = again.on_conflict_do_update(
        index_elements=["tenant_id", "digest"], set_={"used_at": row["used_at"]}
    )
    existed = session.scalar(
        select(kind.digest).where(kind.tenant_id == row["tenant_id"], kind.digest == row["digest"])
    )
    session.execute(again)
    session.execute(
        delete(Expired).where(
            Expired.tenant_id == row["tenant_id"],
            Expired.digest == row["digest"],
            Expired.kind == kind.__tablename__,
        )
    )
    return existed is not None


def _get(session: Session, kind: type[Kept], tenant_id: str, digest: str, *, code: str) -> Kept:
    row = session.scalar(select(kind).where(kind.tenant_id == tenant_id, kind.digest == digest))
    if row is None:
        gone = expired(session, tenant_id, kind.__tablename__, digest)
        if gone is not None:
            raise _EXPIRED[kind.__tablename__](gone)
        raise NotFound(
            f"There is no {kind.__name__.lower()} {digest}.",
            code=code,
            why="It was never uploaded here, or belongs to another tenant.",
            fix=f"Upload it with POST /v1/{kind.__tablename__}; the answer names its digest.",
        )
    return row


def _model_expired(gone: Expired) -> NotFound:
    return NotFound(
        f"The model {gone.name[:80]!r} was removed on {gone.expired_at:%Y-%m-%d}.",
        code="model_expired",
        why=_unused(gone),
        fix="Upload it again with POST /v1/models; the same bytes have the same digest.",
        expired_at=gone.expired_at.isoformat(),
        rule=gone.rule,
    )


def _dataset_expired(gone: Expired) -> NotFound:
    return NotFound(
        f"The dataset {gone.name[:80]!r} was removed on {gone.expired_at:%Y-%m-%d}.",
        code="dataset_expired",
        why=_unused(gone),
        fix="Upload it again with POST /v1/datasets; the same bytes have the same digest.",
        expired_at=gone.expired_at.isoformat(),
        rule=gone.rule,
    )


def _unused(gone: Expired) -> str:
    return (
        f"No build had used it for as long as the operator keeps {gone.kind} "
        f"({setting_of(Rule(gone.rule))}), and no published artifact refers to it."
    )


_EXPIRED = {"models": _model_expired, "datasets": _dataset_expired}
