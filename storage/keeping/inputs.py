"""Models and datasets that no build has used for long and no artifact that is out refers to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, exists, func, select, tuple_

from enginefarm.state import ArtifactState
from storage import catalogue, jobs
from storage.database import Session
from storage.keeping.released import release
from storage.models import Artifact, Build, Dataset, Job, Model
from storage.retention import Rule, Thing

_OUT = (ArtifactState.PUBLISHED, ArtifactState.REVOKED)
Kind = type[Model] | type[Dataset]


def models(
    session: Session, before: datetime, after: tuple[object, ...] | None, limit: int
) -> Sequence[Thing]:
    """Return the models that were uploaded, or asked for, last before a moment."""
    rows = session.execute(_page(Model, before, after, limit))
    return [_thing(session, Rule.MODELS, row) for row in rows]


def datasets(
    session: Session, before: datetime, after: tuple[object, ...] | None, limit: int
) -> Sequence[Thing]:
    """Return the datasets that were uploaded, or asked for, last before a moment."""
    rows = session.execute(_page(Dataset, before, after, limit))
    return [_thing(session, Rule.DATASETS, row) for row in rows]


def model_again(session: Session, thing: Thing) -> Thing | None:
    """Look at a model anew."""
    return _again(session, Model, thing)


def dataset_again(session: Session, thing: Thing) -> Thing | None:
    """Look at a dataset anew."""
    return _again(session, Dataset, thing)


def remove_model(session: Session, thing: Thing) -> None:
    """Remove a model; a build that asks for it is told to upload it again."""
    _, tenant_id, digest = thing.key
    model = session.get_one(Model, (tenant_id, digest))
    files = [file["digest"] for file in model.files]
    session.delete(model)
    _note(session, thing, "models")
    release(session, thing.tenant_id, files)


def remove_dataset(session: Session, thing: Thing) -> None:
    """Remove a dataset; a build that asks for it is told to upload it again."""
    _, tenant_id, digest = thing.key
    dataset = session.get_one(Dataset, (tenant_id, digest))
    session.delete(dataset)
    _note(session, thing, "datasets")
    release(session, thing.tenant_id, [dataset.digest])


def _note(session: Session, thing: Thing, kind: str) -> None:
    digest = str(thing.key[-1])
    catalogue.note_expired(session, thing.tenant_id, kind, digest, name=thing.name, rule=thing.rule)


def _select(kind: Kind) -> Select[*tuple[Any, ...]]:
    return select(kind.used_at, kind.tenant_id, kind.digest, kind.name, kind.size)


def _page(
    kind: Kind, before: datetime, after: tuple[object, ...] | None, limit: int
) -> Select[*tuple[Any, ...]]:
    key = (kind.used_at, kind.tenant_id, kind.digest)
    query = _select(kind).where(kind.used_at < before).order_by(*key).limit(limit)
    return query if after is None else query.where(tuple_(*key) > after)


def _again(session: Session, kind: Kind, thing: Thing) -> Thing | None:
    _, tenant_id, digest = thing.key
    mine = _select(kind).where(kind.tenant_id == tenant_id, kind.digest == digest)
    row = session.execute(mine.with_for_update()).one_or_none()
    return None if row is None else _thing(session, thing.rule, row)


def _thing(session: Session, rule: Rule, row: Row[*tuple[Any, ...]]) -> Thing:
    thing = Thing(
        rule=rule,
        tenant_id=row.tenant_id,
        key=(row.used_at, row.tenant_id, row.digest),
        name=row.name,
        since=row.used_at,
        size=row.size,
    )
    named = {
        Rule.MODELS: Build.model_digest == row.digest,
        Rule.DATASETS: (Build.spec["evaluation"].as_string() == row.digest)
        | (Build.spec["precision", "calibration"].as_string() == row.digest),
    }[rule]
    return _with_uses(session, thing, (Build.tenant_id == row.tenant_id) & named)


def _with_uses(session: Session, thing: Thing, mine: ColumnElement[bool]) -> Thing:
    """Add when a build used a thing last, whether one needs it still, and whether one is out."""
    going_on = exists().where(Job.build_id == Build.id, Job.state.in_(jobs.LIVE))
    out = exists().where(Artifact.build_id == Build.id, Artifact.state.in_(_OUT))
    last, live, referred = session.execute(
        select(
            func.max(func.coalesce(Build.finished_at, Build.created_at)),
            func.coalesce(func.bool_or(Build.finished_at.is_(None) | going_on), False),
            func.coalesce(func.bool_or(out), False),
        ).where(mine)
    ).one()
    return replace(thing, uses=(last,) if last is not None else (), live=live, referred=referred)
