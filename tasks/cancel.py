"""Cancel a build. What other live builds wait for runs on; everything else stops."""

from __future__ import annotations

from enginefarm.state import BuildState, JobState
from storage import builds, events, jobs
from storage.database import Session, now
from storage.models import Build, Job
from tasks.farm import Farm
from tasks.fault_points import reach
from tasks.moves import move


def cancel(farm: Farm, tenant_id: str, build_id: str) -> None:
    """Cancel a build; a build that has ended stays as it is.

    Raises:
        NotFound: this tenant has no such build.
    """
    with farm.database.transaction() as session:
        builds.lock_tenant(session, tenant_id)
        if not cancel_within(session, tenant_id, build_id):
            return
        reach("cancel.written")
    reach("cancel.committed")
    farm.progress.wake(build_id)


def cancel_within(session: Session, tenant_id: str, build_id: str) -> list[str]:
    """Cancel a build for whoever holds the tenant's lock; return it, or nothing if it was over.

    Raises:
        NotFound: this tenant has no such build.
    """
    builds.get(session, tenant_id, build_id)
    build = builds.lock(session, build_id)
    if BuildState(build.state).terminal:
        return []
    build.cancelled_at = build.finished_at = now()
    build.state = BuildState.CANCELLED
    session.flush()
    for job in jobs.of_build(session, tenant_id, build_id):
        _stop(session, job)
    events.add(session, build, "build", {"state": str(build.state)})
    return [build_id]


def _stop(session: Session, job: Job) -> None:
    if job.state.terminal:
        return
    if jobs.wanted_by_others(session, job):
        job.note = "runs on: another build waits for it"
        session.flush()
        return
    leader_id = job.joined_to
    if job.state is JobState.RUNNING:
        # The node hears of it with its next beat; the publisher looks before it publishes.
        job.cancel_requested_at = now()
        session.flush()
    else:
        move(session, job, JobState.CANCELLED, note="cancelled", joined_to=None)
    if leader_id is not None:
        _stop_unwanted(session, leader_id)


def _stop_unwanted(session: Session, leader_id: str) -> None:
    """Stop a job that ran on for others, once the last of them is cancelled too."""
    leader = jobs.find(session, leader_id)
    if leader is None or leader.state.terminal:
        return
    build: Build = builds.lock(session, leader.build_id)
    if build.state is BuildState.CANCELLED:
        _stop(session, leader)
