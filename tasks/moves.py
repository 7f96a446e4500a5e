"""The one way a job's state changes: the table of legal moves, then a compare-and-set, an event.

The build's row is locked by the event's number, so what watchers see is in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from enginefarm.errors import Conflict, Failure
from enginefarm.state import BuildState, JobState
from storage import builds, events, jobs
from storage.database import Session, now
from storage.models import Build, Job
from tasks.chains import standing
from tasks.lifecycle import build_state, require_move, target_state


def move(session: Session, job: Job, goal: JobState, **values: Any) -> None:  # noqa: ANN401 - column values
    """Move a job and tell its build's watchers.

    Raises:
        Conflict: the table has no such move (``illegal_move``), or somebody else moved the job
            first (``moved_meanwhile``).
    """
    require_move(job.state, goal)
    if goal.terminal:
        values.setdefault("finished_at", now())
    if not jobs.compare_and_set(session, job, goal, values):
        raise Conflict(
            f"Job {job.id} has moved meanwhile.",
            code="moved_meanwhile",
            fix="Read it again.",
        )
    tell(session, job)


def tell(session: Session, job: Job) -> None:
    """Tell the watchers of a job's build where the job stands."""
    events.add(session, job.build, "job", _told(job), job.id)


def fail(session: Session, job: Job, failure: Failure, state: JobState = JobState.FAILED) -> None:
    """End a job for a reason that people will read."""
    move(session, job, state, failure=failure.model_dump(mode="json"))


def roll_up(session: Session, build: Build, its_jobs: Sequence[Job] | None = None) -> None:
    """Let a build follow from its jobs, read now unless given; tell its watchers if it moved."""
    if BuildState(build.state).terminal:
        return
    if its_jobs is None:
        its_jobs = jobs.of_build(session, build.tenant_id, build.id)
    rows: dict[str, list[Job]] = {}
    for job in its_jobs:
        rows.setdefault(job.target, []).append(job)
    each = [target_state(standing(row)) for row in rows.values()]
    goal = build_state(each, cancelled=build.cancelled_at is not None)
    if goal is build.state:
        return
    build.state = goal
    if goal.terminal:
        build.finished_at = now()
    events.add(session, build, "build", {"state": str(goal)})


def locked(session: Session, job_id: str) -> tuple[Build, Job] | None:
    """Return a job and its build as they are now, both locked, the build first."""
    seen = jobs.find(session, job_id)
    if seen is None:
        return None
    build = builds.lock(session, seen.build_id)
    job = jobs.lock(session, job_id)
    return None if job is None else (build, job)


def _told(job: Job) -> dict[str, Any]:
    told: dict[str, Any] = {
        "state": str(job.state),
        "stage": job.stage,
        "target": job.target,
        "attempt": job.attempt,
        "cached": job.cached_from is not None,
        "joined": job.joined_to is not None,
    }
    if job.twin:
        told["twin"] = job.twin
    if job.sku:
        told["sku"] = job.sku
    if job.note:
        told["note"] = job.note
    if job.failure:
        told["failure"] = job.failure
    return told
