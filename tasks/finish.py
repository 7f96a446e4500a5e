"""An attempt has ended: keep what it made for settling, try again, or end the job."""

from __future__ import annotations

from typing import Any

import structlog

from enginefarm.errors import Failure, InvalidRequest, Unavailable
from enginefarm.manifest import LOG_TYPE
from enginefarm.state import Blame, JobState
from storage import attempts, blobs, builds, jobs, lost, nodes
from storage.database import Session
from storage.models import Build, Job
from tasks import lease
from tasks.conclude import conclude, no_reason
from tasks.failing import fail_attempt, rightly_blamed
from tasks.farm import Farm, Policy
from tasks.fault_points import reach
from tasks.measured import note_peak
from tasks.messages import (
    BUCKET_AWAY,
    INPUT_UNAVAILABLE,
    FinishReply,
    FinishRequest,
)
from tasks.moves import locked, move
from tasks.release import enqueue
from tasks.sent import clear, log_of
from tasks.storable import check_storable

_log = structlog.get_logger()
_MOST_FAILURE_BYTES = 1 << 20
_ENDS = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.QUEUED)


def finish(farm: Farm, node_id: str, job_id: str, message: FinishRequest) -> FinishReply:
    """Take an attempt's end from the node that holds its lease.

    A repeat of a finish whose answer was lost gets the same answer.

    Raises:
        LeaseLost: the attempt is no longer this node's.
    """
    if message.state not in _ENDS:
        raise InvalidRequest(f"An attempt cannot end as {message.state}.", code="invalid_finish")
    message = _storable(message)
    message = message.model_copy(update={"log": log_of(farm, node_id, job_id, message)})
    gone = _lost_engine(farm, job_id, message.failure)
    alone = _is_without_bucket(message.failure) and _answers(farm)
    with farm.database.transaction() as session:
        tenant = _tenant_of(session, job_id)
        builds.lock_tenant(session, tenant)
        found = locked(session, job_id)
        answered = _answered_before(session, node_id, job_id, message)
        if answered is not None:
            return FinishReply(state=answered)
        job = lease.require(
            found[1] if found else None, node_id, message.attempt, message.lease_token
        )
        build = found[0] if found else builds.lock(session, job.build_id)
        message = _asked_for_only(session, job, message)
        if gone is not None:
            lost.note(session, gone)
        if alone:
            _count_bucket_fault(session, farm.policy, job, message.failure)
        touched = _end(session, farm.policy, build, job, message)
        attempts.answer(session, job, message.attempt)
        state = job.state
        session.flush()
        reach("finish.written")
    reach("finish.committed")
    for build_id in touched:
        farm.progress.wake(build_id)
    _clear(farm, job, message.attempt)
    return FinishReply(state=state)


def _clear(farm: Farm, job: Job, number: int) -> None:
    """Remove what an attempt has sent, unless its outputs are to be looked at."""
    if job.state is JobState.UPLOADED:
        return
    with farm.database.transaction() as session:
        attempt = attempts.find(session, job.id, number)
    if attempt is not None:
        clear(farm, attempt)


def _asked_for_only(session: Session, job: Job, message: FinishRequest) -> FinishRequest:
    """Refuse outputs that this attempt asked no place for; what it has sent is looked at later."""
    attempt = attempts.find(session, job.id, job.attempt)
    places = set(attempt.places) if attempt is not None else set()
    strange = sorted({file.digest for file in message.outputs} - places)
    if not strange or message.state is not JobState.SUCCEEDED:
        return message
    return _not_kept(message, f"It names {strange[0]}, for which it asked no place.")


def _not_kept(message: FinishRequest, why: str) -> FinishRequest:
    failure = Failure(
        code="result_invalid",
        blame=Blame.NODE,
        message="What the node says of its job cannot be kept.",
        why=why,
        fix="Bring the node to the farm's version.",
    )
    return FinishRequest(
        attempt=message.attempt,
        lease_token=message.lease_token,
        state=JobState.FAILED,
        failure=failure,
    )


def _storable(message: FinishRequest) -> FinishRequest:
    """Take an end that the database cannot keep as the node's failure to say how it ended."""
    try:
        # Facts are kept as they came; pydantic would write null for a NaN.
        check_storable([message.facts, message.model_dump(mode="json", exclude={"facts"})])
    except ValueError as error:
        return _not_kept(message, f"{error}.")
    # It goes to everybody who watches the build.
    if message.failure and len(message.failure.model_dump_json()) > _MOST_FAILURE_BYTES:
        return _not_kept(message, f"Its failure has more than {_MOST_FAILURE_BYTES} bytes.")
    return message


def _is_without_bucket(failure: Failure | None) -> bool:
    return failure is not None and failure.blame is Blame.FARM and failure.code == BUCKET_AWAY


def _lost_engine(farm: Farm, job_id: str, failure: Failure | None) -> str | None:
    """Return an engine that a job was to measure if the bucket lacks it, and not the node.

    Then the cache must not answer with it again.
    """
    if failure is None or failure.code != INPUT_UNAVAILABLE:
        return None
    with farm.database.transaction() as session:
        job = jobs.find(session, job_id)
        recipe = (job.recipe or {}) if job is not None else {}
    named = [(recipe.get(role) or {}).get("digest") for role in ("engine", "twin")]
    digests: list[str] = [digest for digest in named if digest is not None]
    return next((each for each in digests if farm.objects.head(each) is None), None)


def _answers(farm: Farm) -> bool:
    """Tell whether the bucket answers the control plane: then it is away for the node alone."""
    try:
        farm.objects.ping()
    except Unavailable:
        return False
    return True


def _count_bucket_fault(
    session: Session, policy: Policy, job: Job, failure: Failure | None
) -> None:
    """Hold it against a node, not its job, that it does not reach a bucket that others reach."""
    if job.node_id is None or failure is None:
        return
    note = (
        f"{policy.node_faults} times in a row it did not reach the bucket, which answered the "
        f"farm: its own path to the bucket is broken; the last: {failure.message} {failure.why}"
    )
    if nodes.without_bucket(session, job.node_id, policy.node_faults, note):
        _log.error("node_out_of_service", node=job.node_id, why=note)


def _tenant_of(session: Session, job_id: str) -> str:
    job = jobs.find(session, job_id)
    return job.tenant_id if job is not None else ""


def _answered_before(
    session: Session, node_id: str, job_id: str, message: FinishRequest
) -> JobState | None:
    """Return what the node was told when it ended this attempt, whatever came of the job since."""
    attempt = attempts.find(session, job_id, message.attempt)
    if attempt is None or not lease.speaks_for(attempt, node_id, message.lease_token):
        return None
    return attempt.answered


def _end(
    session: Session, policy: Policy, build: Build, job: Job, message: FinishRequest
) -> set[str]:
    note_peak(session, build, job, message)
    log: dict[str, Any] = {"machine": _dumped(message.machine)}
    if message.log is not None:
        log |= {"log_digest": message.log.digest, "log_size": message.log.size}
        blobs.record(session, job.tenant_id, message.log.digest, message.log.size, LOG_TYPE)
    if message.state is JobState.SUCCEEDED:
        attempts.end(session, job, job.attempt, JobState.UPLOADED, **log)
        move(session, job, JobState.UPLOADED, result=_result(message))
        return {build.id}
    cancelled = job.cancel_requested_at is not None
    if message.state is JobState.FAILED and not cancelled:
        failure = rightly_blamed(policy, job, message.failure or no_reason())
        attempts.end(session, job, job.attempt, JobState.FAILED, failure=_dumped(failure), **log)
        return fail_attempt(session, policy, build, job, failure)
    if message.state is JobState.CANCELLED and not cancelled:
        failure = _unasked()
        attempts.end(session, job, job.attempt, JobState.FAILED, failure=_dumped(failure), **log)
        return fail_attempt(session, policy, build, job, failure)
    attempts.end(session, job, job.attempt, JobState.CANCELLED, **log)
    if cancelled:
        move(session, job, JobState.CANCELLED, note="cancelled while running")
        return conclude(session, build, job)
    # Handed back by a node that is leaving: nobody's failure.
    pause = policy.decline_pause_s
    enqueue(session, job, job.queue or "", attempt=job.attempt + 1, delay_s=pause)
    return {build.id}


def _unasked() -> Failure:
    return Failure(
        code="cancelled",
        blame=Blame.NODE,
        message="The node ended the attempt as cancelled, but nobody had cancelled it.",
        fix="The attempt is made again; bring the node to the farm's version.",
    )


def _result(message: FinishRequest) -> dict[str, Any]:
    return {
        "outputs": [file.model_dump(mode="json") for file in message.outputs],
        "facts": message.facts,
        "machine": _dumped(message.machine),
        "log": _dumped(message.log),
    }


def _dumped(value: Any) -> dict[str, Any] | None:  # noqa: ANN401 - any of our models
    return None if value is None else value.model_dump(mode="json")
