"""Let a job start: find its recipe and key, then take it from the cache, join it, or queue it.

The caller holds the tenant's lock, so of two jobs with one key the second sees the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import Any

from enginefarm.errors import FarmError, NotServed
from enginefarm.spec import BuildSpec
from enginefarm.state import PRECISION_STAGES, JobState, Stage
from enginefarm.target import Target
from storage import catalogue, jobs, outbox
from storage.database import Session, now
from storage.models import Build, Job, Model
from tasks.chains import all_measured, chain_of, is_past, none_measured, sku_jobs, twin_jobs
from tasks.comparing.keyed import recipe_of
from tasks.comparing.plan import plan_for, planned_version
from tasks.fleet import live_nodes
from tasks.measured import known_peaks, require_room
from tasks.moves import fail, move, tell
from tasks.plan import LiveNode, able, newest_version, queue_now, waits_for_measure
from tasks.plugin_rules import having
from tasks.recipe import Made, key_of, recipe_for
from tasks.results import Done, made_of
from tasks.revoke import taken_back
from tasks.steps import Step
from tasks.twin import spec_of


def made_for(job: Job, its_jobs: Sequence[Job]) -> Made:
    """Return what those of a target's jobs that a job is built on have made, if they succeeded."""
    twin = _done(twin_jobs(its_jobs)).get(Stage.COMPILE) if job.twin is None else None
    made = made_of(_done(chain_of(job, its_jobs)), twin)
    measured = {row.sku or "": _key_of_done(row) for row in sku_jobs(its_jobs)}
    return replace(made, sku=job.sku, sku_keys=measured or None)


def _key_of_done(row: Job) -> str | None:
    return row.key if row.state is JobState.SUCCEEDED else None


def _done(rows: Sequence[Job]) -> dict[Stage, Done]:
    return {
        Stage(row.stage): Done(row.key or "", row.result or {})
        for row in rows
        if row.state is JobState.SUCCEEDED
    }


class Ground:
    """What starting the jobs of one build rests on; each part is read once, when first needed."""

    def __init__(self, session: Session, build: Build) -> None:
        """Know only which build it is."""
        self.session = session
        self.build = build
        self.started: dict[str, Job] = {}
        """The jobs that this transaction has let start, by key: not all are written yet."""
        self.asking = False
        """Whether the person is still there to be refused."""

    @cached_property
    def spec(self) -> BuildSpec:
        """What was asked for."""
        return BuildSpec.model_validate(self.build.spec)

    @cached_property
    def model(self) -> Model:
        """The model that is built."""
        return catalogue.get_model(self.session, self.build.tenant_id, self.build.model_digest)

    @cached_property
    def live(self) -> list[LiveNode]:
        """The nodes that take work."""
        return live_nodes(self.session)

    def jobs_of(self, target: str) -> list[Job]:
        """Return the jobs of one target, in the order in which they run."""
        rows = jobs.of_build(self.session, self.build.tenant_id, self.build.id)
        return [row for row in rows if row.target == target]

    def recipe(self, job: Job, its_jobs: Sequence[Job]) -> dict[str, Any]:
        """Return a job's recipe; the stages before it must have run."""
        if self.spec.compare is not None:
            return recipe_of(self.session, self.build, job, its_jobs)
        return recipe_for(
            Stage(job.stage),
            spec_of(self.spec, job.twin),
            Target.parse(job.target),
            job.backend_version or "",
            {"digest": self.model.digest, "files": self.model.files},
            made_for(job, its_jobs),
            self.build.search_id,
        )


def release(session: Session, build: Build, job: Job) -> None:
    """Start a waiting job, and the ones after it as far as the cache reaches.

    Raises:
        InvalidRequest: the node that was waited for cannot measure what a gate looks at.
    """
    ground = Ground(session, build)
    release_from(ground, job, ground.jobs_of(job.target))


def release_from(ground: Ground, job: Job, its_jobs: list[Job]) -> None:
    """Do as :func:`release` does for a job among those of its target, on known ground."""
    for row in its_jobs[its_jobs.index(job) :]:
        if row not in its_jobs or (row.twin is not None and row.state.terminal):
            continue  # dropped on the way: nobody can measure; or a twin that cannot be built
        if row.sku is not None:
            if row.state is JobState.WAITING and row.key is None:
                _start(ground, row, its_jobs)
            continue  # the engine is measured on all SKUs at the same time
        if row.stage == Stage.PUBLISH and not all_measured(its_jobs):
            return
        if row.state is not JobState.WAITING or not _start(ground, row, its_jobs):
            return


def _start(ground: Ground, job: Job, its_jobs: list[Job]) -> bool:
    """Start one job; tell whether it has succeeded at once, so that the next may start."""
    session = ground.session
    stage, target = Stage(job.stage), Target.parse(job.target)
    # What is asked for now takes nothing that was withdrawn: the caller holds the tenant's lock.
    revoked = None if ground.asking else taken_back(session, job, its_jobs)
    if revoked is not None:
        _give_up(session, job, its_jobs, revoked)
        return is_past(job)
    if stage is not Stage.PUBLISH and not _has_a_node(ground, job, its_jobs):
        return job not in its_jobs  # dropped: the node that came does not do this stage
    recipe = ground.recipe(job, its_jobs)
    key = key_of(recipe)
    known = jobs.succeeded_with_key(session, job.tenant_id, key)
    if known is not None:
        taken = {"key": key, "recipe": recipe, "result": known.result, "cached_from": known.id}
        move(session, job, JobState.SUCCEEDED, **taken, wait_until=None, note=None)
        return True
    leader = ground.started.get(key) or jobs.in_flight_with_key(
        session, job.tenant_id, key, but=job.id
    )
    alone = leader is None and stage is not Stage.PUBLISH
    if alone and not _has_the_memory(ground, job, its_jobs):
        return is_past(job)
    job.key, job.recipe, job.wait_until, job.note = key, recipe, None, None
    if leader is not None:
        job.joined_to = leader.id
        job.note = f"waits for the same work in build {leader.build_id}"
        tell(session, job)
        return False
    ground.started[key] = job
    if alone:
        queue = queue_now(ground.live, stage, target, job.backend_version, job.sku)
        enqueue(session, job, queue, attempt=1)
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


def _has_a_node(ground: Ground, job: Job, its_jobs: list[Job]) -> bool:
    """Fix the backend version that the key will name; False while the job must wait for a node.

    A job that was planned for a live node does not wait: its queue will find that node again.
    """
    spec, target = ground.spec, Target.parse(job.target)
    if job.backend_version is None:
        _plan_again(ground, its_jobs)
    if job not in its_jobs:
        return False
    if job.backend_version is not None and (
        job.stage != Stage.BENCHMARK
        or not waits_for_measure(spec, target)
        or able(
            having(ground.live, Stage.BENCHMARK, target, spec.options.plugins),
            Stage.BENCHMARK,
            target,
            job.backend_version,
            sku=job.sku,
        )
    ):
        return True
    _let_wait(ground, job, f"waits for a node that can {_awaited(ground, job)}")
    return False


def _let_wait(ground: Ground, job: Job, note: str) -> None:
    if job.wait_until is None:
        # The window opens when the job could start, so that a long compile does not eat it.
        job.wait_until = now() + timedelta(seconds=ground.spec.wait_for_node)
        job.note = note
        tell(ground.session, job)


def _has_the_memory(ground: Ground, job: Job, its_jobs: list[Job]) -> bool:
    """Write down what the job is known to need; False while, or since, no live node has as much.

    Raises:
        NotServed: none has, the person does not want to wait, and can still be told.
    """
    stage, target, version = Stage(job.stage), Target.parse(job.target), job.backend_version or ""
    asked = [(stage, target, version)]
    spec = spec_of(ground.spec, job.twin)
    known = known_peaks(ground.session, job.tenant_id, spec, asked).get((stage, job.target))
    if known is None:
        return True
    job.peak_bytes = known.peak_bytes
    try:
        there = having(ground.live, stage, target, spec.options.plugins)
        require_room(known, stage, target, version, there)
    except NotServed as error:
        if ground.spec.wait_for_node > 0:
            words = f"waits for a node that can {stage} {target} with {known.words}"
            _let_wait(ground, job, words)
        elif ground.asking and job.twin is None:
            raise
        else:
            _give_up(ground.session, job, its_jobs, error)
        return False
    return True


def _give_up(session: Session, job: Job, its_jobs: Sequence[Job], error: FarmError) -> None:
    fail(session, job, error.as_failure())
    if job.twin is not None:
        leave_twin(session, job, its_jobs)
        return
    if job.sku is not None and not none_measured(its_jobs):
        return  # the engine is measured on others, or may be
    for row in its_jobs:
        if row.position > job.position and row.state is JobState.WAITING:
            move(session, row, JobState.CANCELLED, note=f"not run: {job.stage} {job.state}")


def leave_twin(session: Session, job: Job, its_jobs: Sequence[Job]) -> None:
    """Give up what a twin's job should have served; without a cast the twin is built as it is."""
    if job.stage in PRECISION_STAGES:
        return
    for row in twin_jobs(its_jobs):
        if row.position > job.position and row.state is JobState.WAITING:
            move(session, row, JobState.CANCELLED, note=f"not run: {job.stage} {job.state}")


def _awaited(ground: Ground, job: Job) -> str:
    """Say what a node is waited for to do: not always what the job itself does."""
    target, tool = Target.parse(job.target), ground.spec.precision.stage
    if job.backend_version is None and tool is not None and newest_version(ground.live, target):
        return f"{tool} a model"
    return f"{job.stage} {target}"


def _plan_again(ground: Ground, its_jobs: list[Job]) -> None:
    """Let the node that was waited for decide the version, and whether there is a benchmark."""
    target = Target.parse(its_jobs[0].target)
    if planned_version(ground.spec, target, ground.live) is None:
        return
    planned = plan_for(ground.spec, target, ground.live)
    twin = None if planned.twin is None else planned.twin.kind
    for row in list(its_jobs):
        kind = None if row.twin is None else twin
        step = Step(Stage(row.stage), kind)
        if step in planned.steps and (row.twin is None or kind is not None):
            row.twin = kind
            row.backend_version = planned.version_of(Stage(row.stage), kind)
            row.unmeasured = planned.reason if row.stage == Stage.PUBLISH else None
        else:
            its_jobs.remove(row)
            jobs.drop(ground.session, row)
    ground.session.flush()
