"""A job that rests on what was revoked after it was asked for: it is run nowhere, nor let out.

So is a comparison one of whose artifacts was.
"""

from __future__ import annotations

from enginefarm.errors import FarmError
from enginefarm.state import ArtifactState, JobState
from storage import builds, jobs
from storage.database import Session
from storage.models import Build, Job
from tasks.comparing.publishing import both_of
from tasks.comparing.subjects import revoked
from tasks.conclude import conclude
from tasks.farm import Farm
from tasks.moves import fail, locked
from tasks.revoke import taken_back

REVOKED = "revoked"
"""What a node that asks for such a job is told."""


def why_not(session: Session, build: Build, job: Job) -> FarmError | None:
    """Say why a job is not run, or what it made not let out, if something of it was revoked."""
    both = both_of(session, build)
    if both is not None:
        found = (row.digest for row in both if row.state is ArtifactState.REVOKED)
        return next((revoked(digest) for digest in found), None)
    every = jobs.of_build(session, build.tenant_id, build.id)
    return taken_back(session, job, [row for row in every if row.target == job.target])


def end(farm: Farm, job_id: str) -> None:
    """Let such a job fail while it is queued, and its build with it."""
    with farm.database.transaction() as session:
        seen = jobs.find(session, job_id)
        if seen is None:
            return
        builds.lock_tenant(session, seen.tenant_id)
        found = locked(session, job_id)
        if found is None:
            return
        build, job = found
        error = why_not(session, build, job) if job.state is JobState.QUEUED else None
        if error is None:
            return
        fail(session, job, error.as_failure())
        touched = conclude(session, build, job)
    for build_id in touched:
        farm.progress.wake(build_id)
