"""Publish a target's artifact: verify, gate, write the manifest, sign, keep. Once, whoever races.

The right to publish is a lease like a node's; the artifact's row is unique for its job.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Protocol

import structlog

from enginefarm.errors import FarmError, JobFailed, Unavailable
from enginefarm.manifest import MANIFEST_TYPE
from enginefarm.spec import BuildSpec
from enginefarm.state import Blame, BuildState, JobState, Stage
from storage import attempts, builds, catalogue, garbage, jobs, timing_caches
from storage.database import Session, now
from storage.models import Build, Job, Model
from storage.signing import StatementSigner
from tasks import lease
from tasks.chains import engine_jobs, sku_jobs, twin_jobs
from tasks.comparing.publishing import both_of, signed
from tasks.comparing.subjects import Both
from tasks.compose import Composed, compose, facts_of
from tasks.conclude import conclude
from tasks.farm import Farm
from tasks.fault_points import reach
from tasks.gates import Named
from tasks.loops import one_by_one
from tasks.moves import locked, move
from tasks.named_artifacts import named_reports
from tasks.proof import NOT_AS_MADE, prove_blobs
from tasks.renewal import renewed
from tasks.results import begun_with_timings
from tasks.revoked import why_not
from tasks.signed_artifact import SignedArtifact
from tasks.statement import statement_for

_log = structlog.get_logger()


@dataclass(frozen=True)
class _Work:
    """A publish job that this process has taken."""

    build: Build
    model: Model
    stages: dict[Stage, Job]
    twin: dict[Stage, Job]
    skus: list[Job]
    origin: Job
    attempt: int
    named: Named
    timing_cache: str | None = None
    compared: Both | None = None
    """The artifacts that it compares, where it makes none."""

    @property
    def measured(self) -> list[Job]:
        """The jobs that have measured the engine."""
        alone = self.stages.get(Stage.BENCHMARK)
        return self.skus if alone is None else [alone]

    @property
    def job(self) -> Job:
        return self.stages[Stage.PUBLISH]


class _Made(Protocol):
    """What a publish job has put together and signed."""

    @property
    def digest(self) -> str:
        """The digest by which it is known."""

    def keep(self, session: Session, signer: StatementSigner, job: Job) -> str:
        """Write its rows and end its job; return a word for the log."""


def publish_due(farm: Farm, signer: StatementSigner) -> int:
    """Publish every artifact that is ready; return how many were tried."""
    with farm.database.transaction() as session:
        due = jobs.publishable(session)
    one_by_one(due, partial(publish, farm, signer))
    return len(due)


def publish(farm: Farm, signer: StatementSigner, job_id: str) -> None:
    """Publish one artifact, unless another process has taken it."""
    work = _take(farm, job_id)
    if work is None:
        return
    reach("publish.taken")
    try:
        with renewed(farm, work.job.id, work.attempt):
            made = _make(farm, signer, work)
    except FarmError as error:
        _give_back(farm, work, error)
        return
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not hold the job for ever
        _log.error("publish_crashed", traceback=traceback.format_exc())
        _give_back(farm, work, FarmError(f"Publishing crashed: {type(error).__name__}."))
        return
    reach("publish.signed")
    touched = _keep(farm, signer, work, made)
    for build_id in touched:
        farm.progress.wake(build_id)


def _take(farm: Farm, job_id: str) -> _Work | None:
    with farm.database.transaction() as session:
        found = locked(session, job_id)
        if found is None or found[1].state is not JobState.WAITING or found[1].key is None:
            return None
        build, job = found
        move(
            session,
            job,
            JobState.RUNNING,
            attempt=job.attempt + 1,
            lease_until=lease.until(farm.policy.publish_lease_s),
            started_at=now(),
            beat_at=now(),
        )
        attempts.start(session, job, None)
        every = jobs.of_build(session, build.tenant_id, build.id)
        its_jobs = [row for row in every if row.target == job.target]
        stages = {Stage(row.stage): row for row in engine_jobs(its_jobs)}
        twin = {Stage(row.stage): row for row in twin_jobs(its_jobs)}
        skus = sku_jobs(its_jobs)
        model = catalogue.get_model(session, build.tenant_id, build.model_digest)
        # A comparison has no compile, and its one benchmark may be on a SKU that is named.
        compiled = stages.get(Stage.COMPILE) or (stages.get(Stage.BENCHMARK) or skus[0])
        origin = jobs.find(session, compiled.cached_from or compiled.id) or compiled
        named = named_reports(session, build.tenant_id, BuildSpec.model_validate(build.spec).gates)
        use = timing_caches.use_of(session, origin.id, origin.attempt)
        timings = use.digest if use is not None and begun_with_timings(origin.result) else None
        compared = both_of(session, build)
    return _Work(build, model, stages, twin, skus, origin, job.attempt, named, timings, compared)


def _make(farm: Farm, signer: StatementSigner, work: _Work) -> _Made:
    """Put together and sign what a publish job is for: an artifact, or a comparison of two."""
    if work.compared is not None:
        return signed(signer, work.build, work.measured[0], work.compared)
    composed = compose(work.build, work.model, work.stages, work.named, work.twin, work.skus)
    bundle = _prepare(farm, signer, work, composed)
    return SignedArtifact(work.build, work.stages, composed, bundle, work.measured)


def _prepare(farm: Farm, signer: StatementSigner, work: _Work, composed: Composed) -> bytes:
    """Put the new files in the bucket, prove that every file is there, then sign."""
    manifest = composed.manifest
    with farm.database.transaction() as session:
        garbage.keep(session, [manifest.digest, *(row.digest for row in composed.files)])
    for row, data in composed.made:
        farm.objects.put_bytes(row.digest, data, row.media_type)
    farm.objects.put_bytes(manifest.digest, manifest.render(), MANIFEST_TYPE)
    prove_blobs(farm, [(row.digest, row.size) for row in composed.files])
    reach("publish.stored")
    rows = (work.build, work.model, work.stages, work.origin)
    facts = facts_of(*rows, signer.builder_id, work.timing_cache, work.skus)
    return signer.sign(statement_for(manifest, facts))


def _keep(farm: Farm, signer: StatementSigner, work: _Work, made: _Made) -> set[str]:
    with farm.database.transaction() as session:
        builds.lock_tenant(session, work.build.tenant_id)
        found = locked(session, work.job.id)
        if found is None:
            return set()
        build, job = found
        if job.state is not JobState.RUNNING or job.attempt != work.attempt:
            return set()  # another publisher took it over when this one's lease had ended
        if _is_cancelled(session, build, job):
            attempts.end(session, job, job.attempt, JobState.CANCELLED)
            move(session, job, JobState.CANCELLED, note="cancelled")
            return conclude(session, build, job)
        revoked = why_not(session, build, job)
        if revoked is None:
            signer.register(session)
            became = made.keep(session, signer, job)
        else:
            became = _refuse(session, job, revoked)
        touched = conclude(session, build, job)
        session.flush()
        reach("publish.written")
    reach("publish.committed")
    _log.info(became, build=build.id, job=job.id, digest=made.digest)
    return touched


def _refuse(session: Session, job: Job, error: FarmError) -> str:
    failure = error.as_failure().model_dump(mode="json")
    attempts.end(session, job, job.attempt, JobState.FAILED, failure=failure)
    move(session, job, JobState.FAILED, failure=failure)
    return error.code


def _is_cancelled(session: Session, build: Build, job: Job) -> bool:
    return build.state is BuildState.CANCELLED and not jobs.wanted_by_others(session, job)


def _withdraw(session: Session, work: _Work, error: FarmError) -> JobFailed:
    """Let nobody take the engine from the cache again; the next build makes it anew."""
    jobs.withdraw(session, work.stages[Stage.COMPILE])
    return JobFailed(
        "The engine is no longer in the bucket as it was built.",
        blame=Blame.FARM,
        code="engine_lost",
        why=error.message,
        fix="Submit the build again: the engine is built anew.",
        **error.context,
    )


def _give_back(farm: Farm, work: _Work, error: FarmError) -> None:
    """Try again later when the farm is at fault, for ever if a part of it is away; else end."""
    with farm.database.transaction() as session:
        builds.lock_tenant(session, work.build.tenant_id)
        found = locked(session, work.job.id)
        if found is None:
            return
        build, job = found
        if job.state is not JobState.RUNNING or job.attempt != work.attempt:
            return
        if error.code == "result_invalid":  # the next build must not be given the same again
            for row in (work.stages.get(Stage.COMPILE), *work.measured):
                if row is not None:
                    jobs.withdraw(session, row)
        lost = error.code in NOT_AS_MADE
        if lost:
            error = _withdraw(session, work, error)
        failure = error.as_failure().model_dump(mode="json")
        attempts.end(session, job, job.attempt, JobState.FAILED, failure=failure)
        away = isinstance(error, Unavailable)
        failures = job.failures + (0 if away else 1)
        may_heal = error.blame is Blame.FARM and not lost
        if _is_cancelled(session, build, job):
            move(session, job, JobState.CANCELLED, note="cancelled")
            conclude(session, build, job)
            return
        if away or (may_heal and failures < farm.policy.max_attempts):
            later = now() + timedelta(seconds=farm.policy.retry_backoff_s)
            move(session, job, JobState.WAITING, not_before=later, failures=failures)
            _log.warning("publish_postponed", build=build.id, code=error.code)
            return
        move(session, job, JobState.FAILED, failure=failure)
        touched = conclude(session, build, job)
    _log.error("publish_failed", build=build.id, job=job.id, code=error.code)
    for build_id in touched:
        farm.progress.wake(build_id)
