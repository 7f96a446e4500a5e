"""Verify what a node uploaded, then let the build go on."""

from __future__ import annotations

from functools import partial

import structlog

from enginefarm.errors import JobFailed
from enginefarm.state import BuildState, JobState, Stage
from enginefarm.target import Target
from storage import attempts, blobs, builds, catalogue, jobs, nodes
from storage.database import Session
from storage.models import Attempt, Build, Job, Model
from tasks.as_asked import check_as_asked
from tasks.comparing.facts import check_compared
from tasks.comparing.recipe import is_comparison
from tasks.conclude import conclude
from tasks.failing import fail_attempt
from tasks.farm import Farm, Policy
from tasks.fault_points import reach
from tasks.loops import one_by_one
from tasks.moves import locked, move
from tasks.results import check_result, input_names
from tasks.sent import clear, prove

_log = structlog.get_logger()


def settle_due(farm: Farm) -> int:
    """Settle every uploaded job; return how many there were."""
    with farm.database.transaction() as session:
        due = jobs.ids_in_state(session, JobState.UPLOADED)
    one_by_one(due, partial(settle, farm))
    return len(due)


def settle(farm: Farm, job_id: str) -> None:
    """Verify the blobs of an uploaded job and move it on; racing settlers do it once."""
    with farm.database.transaction() as session:
        job = jobs.find(session, job_id)
        if job is None or job.state is not JobState.UPLOADED:
            return
        tenant_id = job.tenant_id
        attempt = attempts.find(session, job_id, job.attempt)
        if attempt is None:
            return
        model = catalogue.get_model(session, tenant_id, job.build.model_digest)
        built = _inputs(session, job, model)
    bad = _verify(farm, job, attempt, model, built)
    reach("settle.proved")
    with farm.database.transaction() as session:
        builds.lock_tenant(session, tenant_id)
        found = locked(session, job_id)
        if found is None:
            return
        build, job = found
        if job.state is not JobState.UPLOADED or job.attempt != attempt.number:
            return
        touched = _move_on(session, farm.policy, build, job, bad)
        session.flush()
        reach("settle.written")
    reach("settle.committed")
    _log.info("job_settled", job=job_id, build=build.id, state=str(job.state))
    for build_id in touched:
        farm.progress.wake(build_id)
    clear(farm, attempt)


def _inputs(session: Session, job: Job, model: Model) -> tuple[str, ...] | None:
    """Return the inputs of the model that a job's engine was built from; None of two engines."""
    if is_comparison(job.recipe):
        return None
    its = jobs.of_build(session, job.tenant_id, job.build_id)
    repaired = (row.result for row in its if (row.stage, row.target) == (Stage.REPAIR, job.target))
    written = input_names(next(repaired, None))
    return tuple(row["name"] for row in model.interface["inputs"]) if written is None else written


def _verify(
    farm: Farm, job: Job, attempt: Attempt, model: Model, built: tuple[str, ...] | None
) -> JobFailed | None:
    """Return what is wrong with an uploaded job, if anything is."""
    result = job.result or {}
    try:
        files = [(row["digest"], row["size"], row["media_type"]) for row in result["outputs"]]
        prove(farm, attempt, files)
        if is_comparison(job.recipe):
            check_compared(Target.parse(job.target), result, job.sku)
        else:
            check_result(Stage(job.stage), Target.parse(job.target), result, job.sku)
        facts = result.get("facts") or {}
        check_as_asked(Stage(job.stage), job.recipe or {}, facts, model.interface, built)
    except JobFailed as error:
        return error
    return None


def _move_on(
    session: Session, policy: Policy, build: Build, job: Job, bad: JobFailed | None
) -> set[str]:
    if bad is not None:
        failure = bad.as_failure()
        attempts.judge(session, job, JobState.FAILED, failure.model_dump(mode="json"))
        if job.cancel_requested_at is not None:
            move(session, job, JobState.CANCELLED, note="cancelled while running")
            return conclude(session, build, job)
        return fail_attempt(session, policy, build, job, failure)
    attempts.judge(session, job, JobState.SUCCEEDED)
    if job.node_id is not None:
        nodes.forgive(session, [job.node_id])
    if build.state is BuildState.CANCELLED and not jobs.wanted_by_others(session, job):
        move(session, job, JobState.CANCELLED, note="cancelled")
    else:
        for file in (job.result or {})["outputs"]:
            blobs.record(session, job.tenant_id, file["digest"], file["size"], file["media_type"])
        move(session, job, JobState.SUCCEEDED)
    return conclude(session, build, job)
