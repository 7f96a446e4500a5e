"""A node rings back: give it the job, once, or say why not."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import structlog

from enginefarm.errors import Unauthenticated
from enginefarm.spec import BuildSpec
from enginefarm.state import PRECISION_STAGES, JobState, NodeState, Stage
from enginefarm.target import Target
from storage import attempts, catalogue, jobs, nodes, outbox
from storage.database import Session, now
from storage.models import Build, Job, Node
from tasks import lease, revoked, timing_caches
from tasks.comparing.recipe import is_comparison
from tasks.farm import Farm
from tasks.fault_points import reach
from tasks.fleet import description_of, live_nodes
from tasks.measured import measured_for, rooms_now
from tasks.memory import room_of
from tasks.messages import Assignment, ClaimReply, ClaimRequest, InputFile, JobLimits
from tasks.moves import locked, move
from tasks.plan import served_targets
from tasks.results import MODEL_FILE, MODEL_ROLE
from tasks.routing import needs_node_alone, plugins_of, serves, tool_of

_log = structlog.get_logger()


def claim(farm: Farm, node_id: str, message: ClaimRequest) -> ClaimReply:
    """Give a queued attempt to the node that asks first."""
    reply = _claim(farm, node_id, message)
    if reply.declined == revoked.REVOKED:
        revoked.end(farm, message.job_id)
    return reply


def _claim(farm: Farm, node_id: str, message: ClaimRequest) -> ClaimReply:
    with farm.database.transaction() as session:
        node = nodes.get(session, node_id)
        if node is None:
            raise Unauthenticated("This node is not enrolled.", code="node_unknown")
        found = locked(session, message.job_id)
        if found is None:
            return ClaimReply(assignment=None, declined="gone")
        build, job = found
        token = lease.token_of(message.claim_id, job.id, message.attempt)
        if lease.holds(job, node_id, message.attempt, token) and _again(session, farm, job):
            _log.info("claim_answered_again", job=job.id, node=node.name)
            return ClaimReply(assignment=_assignment(session, farm, node, build, job, token))
        if job.state is not JobState.QUEUED or job.attempt != message.attempt:
            return ClaimReply(assignment=None, declined=str(job.state))
        if revoked.why_not(session, build, job) is not None:
            return ClaimReply(assignment=None, declined=revoked.REVOKED)
        unfit = _unfit(session, node, job)
        if unfit is not None:
            outbox.add(session, job, now() + timedelta(seconds=farm.policy.decline_pause_s))
            _log.info("claim_declined", job=job.id, node=node.name, why=unfit)
            return ClaimReply(assignment=None, declined=unfit)
        _start(session, farm, node, job, token)
        assignment = _assignment(session, farm, node, build, job, token)
        session.flush()
        reach("claim.written")
    reach("claim.committed")
    farm.progress.wake(build.id)
    return ClaimReply(assignment=assignment)


def _start(session: Session, farm: Farm, node: Node, job: Job, token: str) -> None:
    """Start the attempt under a lease of its own."""
    kept = lease.hashed(token)
    move(
        session,
        job,
        JobState.RUNNING,
        node_id=node.id,
        lease_sha256=kept,
        lease_until=lease.until(farm.policy.lease_s),
        started_at=now(),
        beat_at=now(),
    )
    attempts.start(session, job, node.id, kept)


def _again(session: Session, farm: Farm, job: Job) -> bool:
    """Begin the lease anew for a claim whose answer was not heard; no longer than a lease."""
    attempt = attempts.find(session, job.id, job.attempt)
    if attempt is None or attempt.started_at < now() - timedelta(seconds=farm.policy.lease_s):
        return False
    # Of the time before it, the node knows nothing: what it says to run has not this job yet.
    job.started_at = job.beat_at = now()
    job.lease_until = lease.until(farm.policy.lease_s)
    return True


def _assignment(
    session: Session, farm: Farm, node: Node, build: Build, job: Job, token: str
) -> Assignment:
    """Return what a node needs for an attempt; the token leaves the farm only in this answer."""
    return Assignment(
        job_id=job.id,
        attempt=job.attempt,
        build_id=job.build_id,
        stage=Stage(job.stage),
        target=Target.parse(job.target),
        lease_token=token,
        lease_s=farm.policy.lease_s,
        heartbeat_s=farm.policy.heartbeat_s,
        limits=JobLimits(running_s=job.limits["running_s"], silent_s=job.limits["silent_s"]),
        recipe=job.recipe or {},
        inputs=_inputs(session, farm, build, job),
        served=served_targets(live_nodes(session)) if job.stage == Stage.CHECK else None,
        measured=measured_for(session, build, job),
        timing_cache=timing_caches.offer(session, farm, job, node),
        sku=job.sku,
        most_memory_bytes=max(rooms_now(session, Stage.COMPILE, job), default=None),
    )


def _unfit(session: Session, node: Node, job: Job) -> str | None:
    """Say why a node should leave this job to another; None if it may have it."""
    if node.state is not NodeState.ACTIVE or not _can(node, job):
        return "incapable"
    if not _has_room(node, job):
        return "too little memory"
    if int(node.description.get("slots", 1)) > 1 and _is_crowded(session, node, job):
        return "busy"
    tried = attempts.failed_on(session, job) if job.attempt > 1 else frozenset()
    if node.id not in tried:
        return None
    others = [row for row in nodes.live(session) if row.id not in tried and _can(row, job)]
    return "failed here before" if any(_has_room(row, job) for row in others) else None


def _has_room(node: Node, job: Job) -> bool:
    """Tell whether a node gives a job the memory that it is known to need."""
    return job.peak_bytes is None or job.peak_bytes <= room_of(description_of(node))


def _is_crowded(session: Session, node: Node, job: Job) -> bool:
    """Tell whether the job, or one that runs there, must have the node to itself."""
    nodes.lock(session, node.id)  # two claims of one node take turns
    others = jobs.running_on(session, node.id)
    alone = [row for row in [job, *others] if needs_node_alone(row.stage)]
    return bool(others) and bool(alone)


def _can(node: Node, job: Job) -> bool:
    description = description_of(node)
    if is_comparison(job.recipe) and not description.compares:
        return False
    stage, target = Stage(job.stage), Target.parse(job.target)
    asked = (job.backend_version, tool_of(job.recipe), job.sku, plugins_of(job.recipe))
    return serves(description, stage, target, *asked)


def _inputs(session: Session, farm: Farm, build: Build, job: Job) -> list[InputFile]:
    """Return the files a stage works on, each with a URL that reads it for a while."""
    recipe = job.recipe or {}
    if is_comparison(recipe):
        return _urls(farm, [*recipe["compare"].items(), *_evaluation(session, build)])
    files: list[tuple[str, dict[str, Any]]] = [
        (MODEL_ROLE if file["name"] == MODEL_FILE else "external-data", file)
        for file in recipe["model"]["files"]
    ]
    stage = Stage(job.stage)
    if stage is Stage.BENCHMARK:
        files.append(("engine", recipe["engine"]))
        files += [("twin", recipe["twin"])] if "twin" in recipe else []
    if stage is Stage.BENCHMARK or stage in PRECISION_STAGES:
        files += _evaluation(session, build)
        if stage in PRECISION_STAGES:
            asked = recipe["precision"].get("calibration")
            files += _dataset(session, build, "calibration", asked)
    return _urls(farm, files)


def _evaluation(session: Session, build: Build) -> list[tuple[str, dict[str, Any]]]:
    spec = BuildSpec.model_validate(build.spec)
    return _dataset(session, build, "dataset", spec.evaluation)


def _urls(farm: Farm, files: Iterable[tuple[str, dict[str, Any]]]) -> list[InputFile]:
    return [
        InputFile(
            role=role,
            name=file["name"],
            digest=file["digest"],
            size=file["size"],
            url=farm.objects.presign_get(file["digest"], seconds=farm.policy.transfer_s),
        )
        for role, file in files
    ]


def _dataset(
    session: Session, build: Build, role: str, digest: str | None
) -> list[tuple[str, dict[str, Any]]]:
    if digest is None:
        return []
    row = catalogue.get_dataset(session, build.tenant_id, digest)
    return [(role, {"name": f"{role}.npz", "digest": row.digest, "size": row.size})]
