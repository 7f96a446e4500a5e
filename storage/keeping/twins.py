"""What was built only so that an engine could be measured beside it; the numbers stay.

A twin's results have the keys of an ordinary build's, so such a build may have taken one and gone
out with it: that one stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Select, exists, select, tuple_
from sqlalchemy.orm import aliased

from enginefarm.state import JobState, Stage
from storage import catalogue
from storage.database import Session
from storage.keeping import results
from storage.keeping.released import referred
from storage.models import ArtifactFile, Job
from storage.retention import Rule, Thing

_KEY = (Job.finished_at, Job.id)


def page(
    session: Session, before: datetime, after: tuple[object, ...] | None, limit: int
) -> Sequence[Thing]:
    """Return the jobs of twins that ended before a moment and whose results are there."""
    query = _kept().where(Job.finished_at < before).order_by(*_KEY).limit(limit)
    if after is not None:
        query = query.where(tuple_(*_KEY) > after)
    return [_thing(session, job) for job in session.scalars(query)]


def again(session: Session, thing: Thing) -> Thing | None:
    """Look at a job anew."""
    query = _kept().where(Job.id == thing.key[-1]).with_for_update()
    job = session.scalars(query).one_or_none()
    return None if job is None else _thing(session, job)


def remove(session: Session, thing: Thing) -> None:
    """Remove what a job has made; whoever asks for one of the files is told when."""
    job = session.get_one(Job, thing.key[-1])
    digests = {file["digest"] for file in results.outputs(job)}
    results.expire(session, [job, *results.takers(session, job)])
    for digest in sorted(digests - referred(session, job.tenant_id, digests)):
        catalogue.note_expired(
            session, job.tenant_id, "blobs", digest, name=job.build_id, rule=Rule.TWINS
        )


def _kept() -> Select[Job]:
    return select(Job).where(
        Job.twin.is_not(None),
        Job.state == JobState.SUCCEEDED,
        Job.cached_from.is_(None),
        Job.result_expired_at.is_(None),
    )


def _thing(session: Session, job: Job) -> Thing:
    files = results.outputs(job)
    thing = Thing(
        rule=Rule.TWINS,
        tenant_id=job.tenant_id,
        key=(job.finished_at, job.id),
        name=f"twin {job.stage} of {job.build_id}",
        since=job.finished_at or job.created_at,
        referred=_is_out(session, job),
        size=sum(file["size"] for file in files),
    )
    taken_by = [taker.build_id for taker in results.takers(session, job)]
    return results.with_builds(session, thing, [job.build_id, *taken_by])


def _is_out(session: Session, job: Job) -> bool:
    """Tell whether an artifact names what a twin's job made, or a published target is built on it.

    A build whose own twin took it does without, like the one that made it.
    """
    digests = [file["digest"] for file in results.outputs(job)]
    publish, taker = aliased(Job), aliased(Job)
    named = exists().where(
        ArtifactFile.tenant_id == job.tenant_id, ArtifactFile.blob_digest.in_(digests)
    )
    built_on = exists().where(
        taker.cached_from == job.id,
        taker.twin.is_(None),
        publish.build_id == taker.build_id,
        publish.target == taker.target,
        publish.stage == Stage.PUBLISH,
        publish.state == JobState.SUCCEEDED,
    )
    return bool(session.scalar(select(named | built_on)))
