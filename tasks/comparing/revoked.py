"""A comparison one of whose artifacts was revoked after it was asked for: it is run nowhere."""

from __future__ import annotations

from enginefarm.errors import InvalidRequest
from enginefarm.state import ArtifactState, JobState
from storage import builds, jobs
from storage.database import Session
from storage.models import Build
from tasks.comparing.publishing import both_of
from tasks.comparing.subjects import revoked
from tasks.conclude import conclude
from tasks.farm import Farm
from tasks.moves import fail, locked

REVOKED = "revoked"
"""What a node that asks for such a job is told."""


def why_not(session: Session, build: Build) -> InvalidRequest | None:
    """Say why a build is not run, if it compares an artifact that was revoked."""
    rows = both_of(session, build) or ()
    found = (row.digest for row in rows if row.state is ArtifactState.REVOKED)
    return next((revoked(digest) for digest in found), None)


def end(farm: Farm, job_id: str) -> None:
    """Let the queued job of such a comparison fail, and its build with it."""
    with farm.database.transaction() as session:
        seen = jobs.find(session, job_id)
        if seen is None:
            return
        builds.lock_tenant(session, seen.tenant_id)
        found = locked(session, job_id)
        if found is None:
            return
        build, job = found
        error = why_not(session, build)
        if job.state is not JobState.QUEUED or error is None:
            return
        fail(session, job, error.as_failure())
        touched = conclude(session, build, job)
    for build_id in touched:
        farm.progress.wake(build_id)
