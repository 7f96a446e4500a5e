"""Take an artifact back: nobody is given it any more, and no build takes anything of it again.

What else names the same engine is another artifact, with a digest of its own, and stays.
"""

from __future__ import annotations

import structlog

from enginefarm.errors import JobFailed
from enginefarm.state import PRECISION_STAGES, ArtifactState, Blame, Stage
from storage import artifacts, builds, events, jobs
from storage.database import Session
from storage.models import Artifact, Job
from tasks.chains import twin_jobs
from tasks.farm import Farm
from tasks.results import engine_of

_log = structlog.get_logger()
_MADE_BY = (*PRECISION_STAGES, Stage.COMPILE, Stage.BENCHMARK, Stage.PUBLISH)


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
    its_jobs = [
        job
        for job in jobs.of_build(session, row.tenant_id, row.build_id)
        if job.target == row.target
    ]
    of_twins = {job.id for job in twin_jobs(its_jobs)}
    for job in its_jobs:
        if job.stage in _MADE_BY and job.id not in of_twins:
            jobs.withdraw(session, job)


def taken_back(session: Session, compiled: Job | None) -> JobFailed | None:
    """Say why an engine is not published that was taken from the cache before it was revoked.

    One that was built anew since is another, even where its bytes are the same.
    """
    origin = None if compiled is None else jobs.find(session, compiled.cached_from or "")
    engine = None if origin is None else engine_of(origin.result)
    if origin is None or engine is None or origin.withdrawn_at is None:
        return None
    found = artifacts.revoked_with(session, origin.tenant_id, engine["digest"])
    if found is None:
        return None
    return JobFailed(
        "The engine was revoked while this build was under way.",
        blame=Blame.PERSON,
        code="engine_revoked",
        why=f"It was taken from the cache, and {found.digest} was revoked:"
        f" {found.revoked_reason or 'no reason is known'}.",
        fix="Submit the build again: the engine is built anew.",
        artifact=found.digest,
    )
