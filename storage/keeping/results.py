"""What targets that ended unpublished have made, and what took it from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, exists, select, tuple_
from sqlalchemy.orm import aliased

from enginefarm.state import ArtifactState, BuildState, JobState, Stage
from storage import jobs
from storage.database import Session, now
from storage.keeping.released import release
from storage.models import Artifact, ArtifactFile, Build, Job
from storage.retention import Rule, Thing

UNPUBLISHED = (BuildState.FAILED, BuildState.CANCELLED, BuildState.PARTIAL)
_KEY = (Build.finished_at, Build.id)


def page(
    session: Session, before: datetime, after: tuple[object, ...] | None, limit: int
) -> Sequence[Thing]:
    """Return the builds with results that ended before a moment and are not all published."""
    query = _with_results().where(Build.finished_at < before).order_by(*_KEY).limit(limit)
    if after is not None:
        query = query.where(tuple_(*_KEY) > after)
    return [_thing(session, row) for row in session.execute(query)]


def again(session: Session, thing: Thing) -> Thing | None:
    """Look at a build anew."""
    query = _with_results().where(Build.id == thing.key[-1]).with_for_update()
    row = session.execute(query).one_or_none()
    return None if row is None else _thing(session, row)


def remove(session: Session, thing: Thing) -> None:
    """Remove what a build's unpublished targets have made; the rows keep what was found."""
    remove_of(session, session.get_one(Build, thing.key[-1]).id)


def remove_of(session: Session, build_id: str) -> None:
    """Remove what a build has made by itself and that is not out."""
    build = session.get_one(Build, build_id)
    build.results_expired_at = now()
    for job in _made_by(session, build.id):
        if not _is_out(session, job):
            expire(session, [job, *takers(session, job)])


def users_of(session: Session, build_id: str) -> list[str]:
    """Return a build, and the builds that took what it has made by itself and that is not out."""
    made = [job for job in _made_by(session, build_id) if not _is_out(session, job)]
    return [build_id, *(taker.build_id for job in made for taker in takers(session, job))]


def expire(session: Session, made: Iterable[Job]) -> None:
    """Let jobs no longer hold their outputs, and nobody take them from the cache."""
    digests: set[str] = set()
    tenants: set[str] = set()
    for job in made:
        digests |= {file["digest"] for file in outputs(job)}
        job.result_expired_at = now()
        job.withdrawn_at = job.withdrawn_at or now()
        tenants.add(job.tenant_id)
    for tenant_id in tenants:
        release(session, tenant_id, digests)


def takers(session: Session, job: Job) -> Sequence[Job]:
    """Return the jobs that took a job's result."""
    return session.scalars(select(Job).where(Job.cached_from == job.id).order_by(Job.id)).all()


def with_builds(session: Session, thing: Thing, build_ids: Collection[str]) -> Thing:
    """Add to a thing the builds that use it: when they ended, and whether one needs it still.

    A build that was cancelled may have jobs that go on, since others wait for them.
    """
    ids = sorted(set(build_ids))
    ends = session.scalars(select(Build.finished_at).where(Build.id.in_(ids))).all()
    going_on = select(Job.id).where(Job.build_id.in_(ids), Job.state.in_(jobs.LIVE)).limit(1)
    return replace(
        thing,
        uses=tuple(end for end in ends if end is not None),
        live=None in ends or session.scalar(going_on) is not None,
    )


def _with_results() -> Select[*tuple[Any, ...]]:
    return select(*_KEY, Build.tenant_id).where(
        Build.state.in_(UNPUBLISHED),
        Build.results_expired_at.is_(None),
        Build.finished_at.is_not(None),
    )


def _made_by(session: Session, build_id: str) -> list[Job]:
    """Return the jobs of a build's unpublished targets that have made something themselves."""
    publish = aliased(Job)
    out = exists().where(
        publish.build_id == Job.build_id, publish.target == Job.target, _let_out(publish)
    )
    query = select(Job).where(
        Job.build_id == build_id,
        Job.stage != Stage.PUBLISH,
        Job.state == JobState.SUCCEEDED,
        Job.cached_from.is_(None),
        Job.result_expired_at.is_(None),
        ~out,
    )
    return list(session.scalars(query.order_by(Job.id)))


def _is_out(session: Session, job: Job) -> bool:
    """Tell whether an artifact has what a job made, or a published target took it."""
    digests = [file["digest"] for file in outputs(job)]
    publish, taker = aliased(Job), aliased(Job)
    named = exists().where(
        ArtifactFile.tenant_id == job.tenant_id, ArtifactFile.blob_digest.in_(digests)
    )
    taken = exists().where(
        taker.cached_from == job.id,
        taker.twin.is_(None),
        publish.build_id == taker.build_id,
        publish.target == taker.target,
        _let_out(publish),
    )
    return bool(session.scalar(select(named | taken)))


def _let_out(publish: type[Job]) -> ColumnElement[bool]:
    """Return whether a publish job's artifact is out, or was: a candidate's may never be."""
    out = exists().where(
        Artifact.tenant_id == publish.tenant_id,
        Artifact.digest == publish.result["artifact"].as_string(),
        Artifact.state != ArtifactState.QUARANTINED,
    )
    return and_(publish.stage == Stage.PUBLISH, publish.state == JobState.SUCCEEDED, out)


def _thing(session: Session, row: Row[*tuple[Any, ...]]) -> Thing:
    thing = Thing(
        rule=Rule.RESULTS,
        tenant_id=row.tenant_id,
        key=(row.finished_at, row.id),
        name=row.id,
        since=row.finished_at,
    )
    made = [job for job in _made_by(session, row.id) if not _is_out(session, job)]
    size = sum(file["size"] for job in made for file in outputs(job))
    return replace(with_builds(session, thing, users_of(session, row.id)), size=size)


def outputs(job: Job) -> list[dict[str, Any]]:
    """Return the files that a job has made, as its row names them."""
    found: list[dict[str, Any]] = (job.result or {}).get("outputs", [])
    return found
