"""A node rings back: give it the job, once, or say why not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import structlog

from enginefarm.errors import Unauthenticated
from enginefarm.spec import BuildSpec
from enginefarm.state import JobState, NodeState, Stage
from enginefarm.target import Target
from storage import catalogue, jobs, nodes, outbox
from storage.database import Session, now
from storage.models import Build, Job, Node
from tasks import lease
from tasks.farm import Farm
from tasks.messages import Assignment, ClaimReply, ClaimRequest, InputFile, JobLimits
from tasks.moves import locked, move
from tasks.release import description_of
from tasks.routing import serves

_log = structlog.get_logger()


def claim(farm: Farm, node_id: str, message: ClaimRequest) -> ClaimReply:
    """Give a queued attempt to the node that asks first."""
    with farm.database.transaction() as session:
        node = nodes.get(session, node_id)
        if node is None:
            raise Unauthenticated("This node is not enrolled.", code="node_unknown")
        found = locked(session, message.job_id)
        if found is None:
            return ClaimReply(assignment=None, declined="gone")
        build, job = found
        if job.state is not JobState.QUEUED or job.attempt != message.attempt:
            return ClaimReply(assignment=None, declined=str(job.state))
        if not _fit(node, job):
            outbox.add(session, job, now() + timedelta(seconds=farm.policy.decline_pause_s))
            _log.info("claim_declined", job=job.id, node=node.name, backend=job.target)
            return ClaimReply(assignment=None, declined="incapable")
        token, kept = lease.new_token()
        move(
            session,
            job,
            JobState.RUNNING,
            node_id=node_id,
            lease_sha256=kept,
            lease_until=lease.until(farm.policy.lease_s),
            started_at=now(),
            beat_at=now(),
        )
        jobs.start_attempt(session, job, node_id)
        assignment = Assignment(
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
        )
    farm.progress.wake(build.id)
    return ClaimReply(assignment=assignment)


def _fit(node: Node, job: Job) -> bool:
    if node.state is not NodeState.ACTIVE:
        return False
    description = description_of(node)
    return serves(description, Stage(job.stage), Target.parse(job.target), job.backend_version)


def _inputs(session: Session, farm: Farm, build: Build, job: Job) -> list[InputFile]:
    """Return the files a stage works on, each with a URL that reads it for a while."""
    model = catalogue.get_model(session, build.tenant_id, build.model_digest)
    files: list[tuple[str, dict[str, Any]]] = [
        ("model" if file["name"] == "model.onnx" else "external-data", file) for file in model.files
    ]
    if Stage(job.stage) is Stage.BENCHMARK:
        recipe = job.recipe or {}
        files.append(("engine", recipe["engine"]))
        evaluation = BuildSpec.model_validate(build.spec).evaluation
        if evaluation is not None:
            dataset = catalogue.get_dataset(session, build.tenant_id, evaluation)
            files.append(
                (
                    "dataset",
                    {"name": "dataset.npz", "digest": dataset.digest, "size": dataset.size},
                )
            )
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
