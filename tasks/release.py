"""Let a job start: find its recipe and key, then take it from the cache, join it, or queue it.

The caller holds the tenant's lock, so of two jobs with one key the second sees the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter

from enginefarm.spec import BuildSpec
from enginefarm.state import JobState, Stage
from enginefarm.target import Target
from storage import catalogue, jobs, nodes, outbox
from storage.database import Session, now
from storage.models import Build, Job, Node
from tasks.messages import NodeDescription
from tasks.moves import move
from tasks.plan import LiveNode, able, newest_version
from tasks.recipe import Made, key_of, recipe_for
from tasks.routing import queue_for

_DESCRIPTION = TypeAdapter(NodeDescription)


def live_nodes(session: Session) -> list[LiveNode]:
    """Return the nodes that take work, as the rules want them."""
    return [LiveNode(row.name, description_of(row)) for row in nodes.live(session)]


def description_of(row: Node) -> NodeDescription:
    """Return what a node said of itself."""
    return _DESCRIPTION.validate_python(row.description)


def made_by(its_jobs: Sequence[Job]) -> Made:
    """Return what the succeeded jobs of one target have made."""
    done = {Stage(job.stage): job for job in its_jobs if job.state is JobState.SUCCEEDED}
    compiled, measured = done.get(Stage.COMPILE), done.get(Stage.BENCHMARK)
    return Made(
        engine=engine_of(compiled.result) if compiled is not None else None,
        compile_key=compiled.key if compiled is not None else None,
        benchmark_key=measured.key if measured is not None else None,
    )


def engine_of(result: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the engine among a compile job's outputs."""
    outputs = (result or {}).get("outputs", [])
    row = next((row for row in outputs if row["role"] == "engine"), None)
    if row is None:
        return None
    return {name: row[name] for name in ("name", "digest", "size", "media_type")}


def recipe_of(session: Session, build: Build, job: Job, its_jobs: Sequence[Job]) -> dict[str, Any]:
    """Return a job's recipe; the stages before it must have run."""
    model = catalogue.get_model(session, build.tenant_id, build.model_digest)
    return recipe_for(
        Stage(job.stage),
        BuildSpec.model_validate(build.spec),
        Target.parse(job.target),
        job.backend_version or "",
        {"digest": model.digest, "files": model.files},
        made_by(its_jobs),
    )


def release(session: Session, build: Build, job: Job) -> None:
    """Start a waiting job, and the ones after it as far as the cache reaches."""
    its_jobs = [
        row for row in jobs.of_build(session, build.tenant_id, build.id) if row.target == job.target
    ]
    for row in its_jobs[its_jobs.index(job) :]:
        if row.state is not JobState.WAITING or not _start(session, build, row, its_jobs):
            return


def _start(session: Session, build: Build, job: Job, its_jobs: Sequence[Job]) -> bool:
    """Start one job; tell whether it has succeeded at once, so that the next may start."""
    stage, target = Stage(job.stage), Target.parse(job.target)
    if stage is not Stage.PUBLISH and not _has_a_node(session, job, stage, target, its_jobs):
        return False
    recipe = recipe_of(session, build, job, its_jobs)
    key = key_of(recipe)
    known = jobs.succeeded_with_key(session, job.tenant_id, key)
    if known is not None:
        move(
            session,
            job,
            JobState.SUCCEEDED,
            key=key,
            recipe=recipe,
            result=known.result,
            cached_from=known.id,
            wait_until=None,
        )
        return True
    job.key, job.recipe, job.wait_until = key, recipe, None
    leader = jobs.in_flight_with_key(session, job.tenant_id, key, but=job.id)
    if leader is not None:
        job.joined_to = leader.id
        job.note = f"waits for the same work in build {leader.build_id}"
        session.flush()
        return False
    session.flush()
    if stage is not Stage.PUBLISH:
        enqueue(session, job, queue_for(stage, target), attempt=1)
    return False


def enqueue(session: Session, job: Job, queue: str, *, attempt: int, delay_s: float = 0.0) -> None:
    """Queue an attempt of a job and write down that it must be announced."""
    moment = now()
    move(
        session,
        job,
        JobState.QUEUED,
        attempt=attempt,
        queue=queue,
        queued_at=moment,
        node_id=None,
        lease_sha256=None,
        lease_until=None,
    )
    outbox.add(session, job, moment + timedelta(seconds=delay_s))


def _has_a_node(
    session: Session, job: Job, stage: Stage, target: Target, its_jobs: Sequence[Job]
) -> bool:
    """Fix the backend version that the key will name; False while the job must wait for a node."""
    live = live_nodes(session)
    if job.backend_version is None:
        version = newest_version(live, target)
        if version is None:
            return False
        for row in its_jobs:
            row.backend_version = version
        session.flush()
    # A job that waits for no node was planned for one that is live; its queue will find it.
    return job.wait_until is None or bool(able(live, stage, target, job.backend_version))
