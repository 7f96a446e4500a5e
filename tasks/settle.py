"""Verify what a node uploaded, then let the build go on."""

from __future__ import annotations

from typing import Any

import structlog

from enginefarm.errors import JobFailed
from enginefarm.manifest import LOG_TYPE
from enginefarm.state import BuildState, JobState
from storage import blobs, builds, jobs
from storage.database import Session
from storage.models import Build, Job
from tasks.conclude import conclude
from tasks.farm import Farm, Policy
from tasks.finish import fail_attempt
from tasks.moves import locked, move

_log = structlog.get_logger()


def settle_due(farm: Farm) -> int:
    """Settle every uploaded job; return how many there were."""
    with farm.database.transaction() as session:
        due = jobs.ids_in_state(session, JobState.UPLOADED)
    for job_id in due:
        settle(farm, job_id)
    return len(due)


def settle(farm: Farm, job_id: str) -> None:
    """Verify the blobs of an uploaded job and move it on; racing settlers do it once."""
    with farm.database.transaction() as session:
        job = jobs.find(session, job_id)
        if job is None or job.state is not JobState.UPLOADED:
            return
        attempt, tenant_id, result = job.attempt, job.tenant_id, job.result or {}
    bad: JobFailed | None = None
    try:
        for file in _files(result):
            farm.objects.confirm(file["digest"], file["size"])
    except JobFailed as error:
        bad = error
    with farm.database.transaction() as session:
        builds.lock_tenant(session, tenant_id)
        found = locked(session, job_id)
        if found is None:
            return
        build, job = found
        if job.state is not JobState.UPLOADED or job.attempt != attempt:
            return
        touched = _move_on(session, farm.policy, build, job, bad)
    _log.info("job_settled", job=job_id, build=build.id, state=str(job.state))
    for build_id in touched:
        farm.progress.wake(build_id)


def _move_on(
    session: Session, policy: Policy, build: Build, job: Job, bad: JobFailed | None
) -> set[str]:
    if bad is not None:
        return fail_attempt(session, policy, build, job, bad.as_failure())
    if build.state is BuildState.CANCELLED and not jobs.wanted_by_others(session, job):
        move(session, job, JobState.CANCELLED, note="cancelled")
    else:
        for file in _files(job.result or {}):
            blobs.record(session, job.tenant_id, file["digest"], file["size"], file["media_type"])
        move(session, job, JobState.SUCCEEDED)
    return conclude(session, build, job)


def _files(result: dict[str, Any]) -> list[dict[str, Any]]:
    log = result.get("log")
    files = list(result.get("outputs", []))
    return [*files, {**log, "media_type": LOG_TYPE}] if log else files
