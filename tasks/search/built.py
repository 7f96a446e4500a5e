"""What came of a candidate's build, and how the artifact of the one that is chosen goes out.

The artifact of every candidate is kept back: of a search one engine is to be deployed. The caller
holds the tenant's lock.
"""

from __future__ import annotations

from enginefarm.errors import Failure
from enginefarm.report import BuildReport
from enginefarm.search import SearchSpec
from enginefarm.search_views import Outcome
from enginefarm.state import ArtifactState, Blame, BuildState, JobState, Stage
from storage import artifacts, builds, jobs
from storage.database import Session
from storage.models import Build, Candidate
from tasks.chains import telling
from tasks.comparing.subjects import engine_file
from tasks.revoke import taken_back
from tasks.search import outcome


def look(session: Session, spec: SearchSpec, candidate: Candidate) -> None:
    """Keep what came of a candidate if its build is over."""
    if candidate.build_id is None:
        return
    build = builds.get(session, candidate.tenant_id, candidate.build_id)
    if BuildState(build.state).terminal:
        candidate.outcome = outcome_of(session, spec, build).model_dump(mode="json")


def outcome_of(session: Session, spec: SearchSpec, build: Build) -> Outcome:
    """Return what came of a build that is over."""
    its_jobs = telling(jobs.of_build(session, build.tenant_id, build.id))
    published = next((row for row in its_jobs if row.stage == Stage.PUBLISH), None)
    digest = ((published.result if published else None) or {}).get("artifact")
    if published is not None and isinstance(digest, str):
        made = artifacts.get(session, build.tenant_id, digest)
        if made.report is None:
            return _gone(f"The report of {digest} is gone.")
        report = BuildReport.model_validate(made.report)
        fit = published.state is JobState.SUCCEEDED
        found = outcome.read(spec, report, digest, ArtifactState(made.state), fit=fit)
        return found.model_copy(update={"engine": engine_file(made).digest})
    failure = next((row.failure for row in its_jobs if row.failure is not None), None)
    if failure is not None:
        return outcome.failed(Failure.model_validate(failure))
    return _gone(f"Its build is {build.state}.")


def _gone(said: str) -> Outcome:
    return outcome.failed(Failure(code="cancelled", blame=Blame.PERSON, message=said))


def drop_revoked(session: Session, candidate: Candidate) -> None:
    """Let a candidate that was revoked meanwhile, or what it rests on, be one not to be chosen."""
    digest = (candidate.outcome or {}).get("artifact")
    if digest is None:
        return
    made = artifacts.get(session, candidate.tenant_id, digest)
    session.refresh(made, with_for_update=True)
    if made.state is ArtifactState.REVOKED:
        failure = Failure(
            code="artifact_revoked", blame=Blame.PERSON, message=f"{digest} was revoked."
        )
        candidate.outcome = outcome.failed(failure).model_dump(mode="json")
        return
    every = jobs.of_build(session, made.tenant_id, made.build_id)
    its_jobs = [row for row in every if row.target == made.target]
    publish = next(row for row in its_jobs if row.id == made.job_id)
    error = taken_back(session, publish, its_jobs)
    if error is not None:
        candidate.outcome = outcome.failed(error.as_failure()).model_dump(mode="json")


def let_out(session: Session, candidate: Candidate) -> None:
    """Publish the artifact of the candidate that is chosen."""
    found = Outcome.model_validate(candidate.outcome)
    if found.artifact is None:
        return
    artifacts.get(session, candidate.tenant_id, found.artifact).state = ArtifactState.PUBLISHED
    out = found.model_copy(update={"artifact_state": ArtifactState.PUBLISHED})
    candidate.outcome = out.model_dump(mode="json")
