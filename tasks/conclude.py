"""What follows when a job has ended: the next stage, the jobs that joined it, its build.

The caller holds the tenant's lock.
"""

from __future__ import annotations

from operator import attrgetter

from enginefarm.errors import Failure
from enginefarm.state import Blame, BuildState, JobState
from storage import builds, jobs
from storage.database import Session
from storage.models import Build, Job
from tasks.chains import all_measured, is_past, none_measured, sku_jobs
from tasks.moves import move, roll_up
from tasks.release import leave_twin, release


def conclude(session: Session, build: Build, job: Job) -> set[str]:
    """Carry on after ``job`` has ended; return the builds whose watchers should be woken."""
    touched = {build.id}
    if job.sku is not None:
        _after_sku(session, build, job)
    elif is_past(job):
        _go_on(session, build, job)
    else:
        _end_later(session, build, job)
    for follower in jobs.followers(session, job.id):
        touched |= _settle_follower(session, follower, job)
    roll_up(session, build)
    return touched


def _go_on(session: Session, build: Build, job: Job) -> None:
    """Start what comes next; an engine whose twin cannot be built is measured alone."""
    after = _later(session, build, job)
    if job.state is not JobState.SUCCEEDED:
        leave_twin(session, job, after)
        after = [row for row in after if not is_past(row)]
    if after and after[0].state is JobState.WAITING and build.state is not BuildState.CANCELLED:
        release(session, build, after[0])


def _after_sku(session: Session, build: Build, job: Job) -> None:
    """Go on once the engine was measured on all its SKUs that are still to be had, if on any."""
    every = jobs.of_build(session, build.tenant_id, build.id)
    its_jobs = [row for row in every if row.target == job.target]
    if none_measured(its_jobs):
        _end_later(session, build, job)
    elif all_measured(its_jobs):
        _go_on(session, build, max(sku_jobs(its_jobs), key=attrgetter("position")))


def _later(session: Session, build: Build, job: Job) -> list[Job]:
    return [
        row
        for row in jobs.of_build(session, build.tenant_id, build.id)
        if row.target == job.target and row.position > job.position
    ]


def _end_later(session: Session, build: Build, job: Job) -> None:
    for row in _later(session, build, job):
        if row.state is JobState.WAITING:
            move(session, row, JobState.CANCELLED, note=f"not run: {job.stage} {job.state}")


def _settle_follower(session: Session, follower: Job, leader: Job) -> set[str]:
    """Give a job that joined another the same end, or let it start for itself."""
    build = builds.lock(session, follower.build_id)
    if leader.state is JobState.SUCCEEDED:
        move(
            session,
            follower,
            JobState.SUCCEEDED,
            result=leader.result,
            cached_from=leader.id,
            joined_to=None,
            note=None,
        )
        return conclude(session, build, follower)
    if leader.state is JobState.FAILED and not _of_its_own_build(leader):
        failure = leader.failure or no_reason().model_dump(mode="json")
        move(session, follower, JobState.FAILED, failure=failure, note=f"as in {leader.build_id}")
        return conclude(session, build, follower)
    # Without a key it has not started: it may wait for a node, and nobody else may join it.
    follower.joined_to = follower.note = follower.key = follower.recipe = None
    session.flush()
    release(session, build, follower)
    roll_up(session, build)
    return {build.id}


def _of_its_own_build(leader: Job) -> bool:
    """Tell whether a job failed by what its own build has set or named: it binds no other.

    Clocks are such; and artifacts, of which others may name another with the same engine.
    """
    own = {"comparison_revoked", "engine_revoked", "running_limit", "silent_limit"}
    return (leader.failure or {}).get("code") in own


def no_reason() -> Failure:
    """Return the failure of a job that ended without saying why."""
    return Failure(code="internal", blame=Blame.FARM, message="The job failed without a reason.")
