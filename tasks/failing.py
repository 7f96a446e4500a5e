"""An attempt has failed: by whose fault decides whether the job is tried again, and what counts."""

from __future__ import annotations

import structlog

from enginefarm.errors import Failure
from enginefarm.state import Blame, JobState, Stage
from storage import attempts, jobs, nodes
from storage.database import Session
from storage.models import Build, Job
from tasks.conclude import conclude
from tasks.farm import Policy
from tasks.lifecycle import NODES_SPOILT, after_failure
from tasks.measured import OF_MEMORY, rooms_now
from tasks.messages import (
    BUCKET_AWAY,
    DEVICE_BUSY,
    FARM_AWAY,
    INPUT_UNAVAILABLE,
    MEMORY_LIMIT,
    SCRATCH_FULL,
)
from tasks.moves import move
from tasks.release import enqueue

_log = structlog.get_logger()
SILENT_LIMIT = "silent_limit"
MOST_DOUBLINGS = 5
"""So that what was away for hours is not waited for for days."""
_WAITED_FOR = {
    (Blame.FARM, BUCKET_AWAY),
    (Blame.FARM, FARM_AWAY),
    (Blame.NODE, SCRATCH_FULL),
    (Blame.NODE, DEVICE_BUSY),
}
"""What will be over one day, whatever the job: not counted."""


def fail_attempt(
    session: Session, policy: Policy, build: Build, job: Job, failure: Failure
) -> set[str]:
    """Try a job again, or end it, by whose fault the failure is and how often it has failed.

    A bucket that is away, or a node without room, is held against nobody: the job waits, however
    long that takes.
    """
    if (failure.blame, failure.code) in _WAITED_FOR:
        _log.warning("attempt_postponed", job=job.id, build=build.id, code=failure.code)
        _try_again(session, policy, job, job.attempt)
        return {build.id}
    job.failures += 1
    session.flush()
    spoilt = attempts.failed_on(session, job, but=(SCRATCH_FULL, DEVICE_BUSY))
    goal = after_failure(failure.blame, job.failures, policy.max_attempts, len(spoilt))
    if failure.code in OF_MEMORY and job.peak_bytes is not None:
        goal = _by_memory(session, policy, job, failure, goal)
    _count_fault(session, policy, job, failure, spoilt)
    _log.info(
        "attempt_failed",
        job=job.id,
        build=build.id,
        attempt=job.attempt,
        code=failure.code,
        blame=str(failure.blame),
        goal=str(goal),
    )
    if goal is JobState.QUEUED:
        _try_again(session, policy, job, job.failures)
        return {build.id}
    if failure.code == INPUT_UNAVAILABLE:
        _withdraw_inputs(session, job)
    if failure.blame is not Blame.PERSON:
        failure = failure.model_copy(
            update={"context": {**failure.context, "attempts": job.failures, "nodes": len(spoilt)}}
        )
    move(session, job, JobState.FAILED, failure=failure.model_dump(mode="json"))
    return conclude(session, build, job)


def _by_memory(
    session: Session, policy: Policy, job: Job, failure: Failure, goal: JobState
) -> JobState:
    """Return where a job goes that had too little memory: on only while a node has more."""
    most = max(rooms_now(session, Stage(job.stage), job), default=0)
    if most < (job.peak_bytes or 0):
        return JobState.FAILED
    # Another node's limit is higher than the one that ended it here.
    again = failure.code == MEMORY_LIMIT and job.failures < policy.max_attempts
    return JobState.QUEUED if again else goal


def rightly_blamed(policy: Policy, job: Job, failure: Failure) -> Failure:
    """Return what a node says of its failure, blamed on whoever the farm knows it to be of.

    Silence is held against whoever set a shorter clock for it than the operator: otherwise builds
    that allow a second of it would put good nodes out of service. That the farm was away only the
    farm can know: a node that says so would have its attempts made again for ever, uncounted.
    """
    if failure.code == FARM_AWAY:
        return failure.model_copy(update={"blame": Blame.NODE})
    if failure.code != SILENT_LIMIT or job.limits["silent_s"] >= policy.silent_s:
        return failure
    fix = f"Raise limits.silent_s; the operator allows {policy.silent_s:g} s."
    return failure.model_copy(update={"blame": Blame.PERSON, "fix": fix})


def _withdraw_inputs(session: Session, job: Job) -> None:
    """Let nobody take from the cache what earlier stages made: the bucket may have lost it."""
    for row in jobs.of_build(session, job.tenant_id, job.build_id):
        earlier = row.target == job.target and row.position < job.position
        if earlier and row.state is JobState.SUCCEEDED:
            jobs.withdraw(session, row)


def _try_again(session: Session, policy: Policy, job: Job, times: int) -> None:
    """Queue another attempt, after a pause that doubles each time up to a point."""
    delay = policy.retry_backoff_s * 2 ** min(times - 1, MOST_DOUBLINGS)
    enqueue(session, job, job.queue or "", attempt=job.attempt + 1, delay_s=delay)


def _count_fault(
    session: Session, policy: Policy, job: Job, failure: Failure, spoilt: frozenset[str]
) -> None:
    """Hold a fault against its node, until the job turns out to spoil every node it meets."""
    if failure.blame is not Blame.NODE or job.node_id is None:
        return
    if len(spoilt) >= NODES_SPOILT:
        nodes.forgive(session, spoilt)
        return
    note = f"{policy.node_faults} failures in a row; the last: {failure.message}"
    if nodes.blame(session, job.node_id, policy.node_faults, note):
        _log.error("node_out_of_service", node=job.node_id, why=note)
