"""Take an artifact back: nobody is given it any more, and no build takes anything of it again.

What else names the same engine is another artifact, with a digest of its own, and stays; what is
still under way with anything of it does not go out.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from enginefarm.errors import JobFailed
from enginefarm.state import ArtifactState, Blame, Stage
from storage import artifacts, builds, events, jobs
from storage.database import Session
from storage.models import Artifact, Job
from tasks.farm import Farm
from tasks.taking_back import goes_with, rests_on

_log = structlog.get_logger()
_WHAT = {
    Stage.CAST: "The cast model",
    Stage.CALIBRATE: "The calibrated model",
    Stage.COMPILE: "The engine",
    Stage.BENCHMARK: "The measurement",
}


def revoke(farm: Farm, tenant_id: str, digest: str, reason: str, key_id: str) -> Artifact:
    """Revoke an artifact and return its row; one that was revoked before stays as it is.

    Raises:
        NotFound: this tenant has no such artifact (code ``unknown_artifact``).
    """
    with farm.database.transaction() as session:
        builds.lock_tenant(session, tenant_id)
        row = artifacts.get(session, tenant_id, digest)
        if row.state is ArtifactState.REVOKED:
            return row
        build = builds.lock(session, row.build_id)
        artifacts.revoke(row, reason, key_id)
        session.flush()
        _withdraw(session, row)
        told = {"state": str(build.state), "revoked": digest, "reason": reason}
        events.add(session, build, "build", told)
    _log.info("artifact_revoked", digest=digest, build=build.id, key=key_id, reason=reason)
    farm.progress.wake(build.id)
    return row


def _withdraw(session: Session, row: Artifact) -> None:
    """Let the cache answer with nothing that was made for it, its precision included."""
    every = jobs.of_build(session, row.tenant_id, row.build_id)
    for job in goes_with([job for job in every if job.target == row.target]):
        jobs.withdraw(session, job)


def taken_back(session: Session, job: Job, its_jobs: Sequence[Job]) -> JobFailed | None:
    """Say why a job is not run, or not published, that rests on what a revoked artifact is of.

    What was made anew since is another, even where its bytes are the same.
    """
    origins = {row.cached_from or row.id: row for row in rests_on(job, its_jobs)}
    found = artifacts.revoked_of(session, job.tenant_id, origins.keys())
    return None if found is None else _refusal(origins[found[1]], found[0])


def _refusal(row: Job, found: Artifact) -> JobFailed:
    whose = "" if row.twin is None else " of its twin"
    return JobFailed(
        f"{_WHAT[Stage(row.stage)]}{whose} was revoked while this build was under way.",
        blame=Blame.PERSON,
        code="engine_revoked",
        why=f"{found.digest} came of the same work, and was revoked:"
        f" {(found.revoked_reason or 'no reason is known').rstrip('.')}.",
        fix="Submit the build again: what was revoked is made anew.",
        artifact=found.digest,
    )
