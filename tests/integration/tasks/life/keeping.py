"""The rules of retention within a schedule: what is due goes, what is needed stays."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from enginefarm.state import ArtifactState, BuildState, JobState, Stage
from storage.database import now as the_time
from storage.retention import Rule, Terms
from tasks.keeping import Keeper
from tests.integration.tasks.life.files import files_of
from tests.integration.tasks.life.snapshot import LIVE, AnyRow, Snapshot
from tests.integration.tasks.life.steps import Steps

TERM_S = 86_400.0
"""Less than a lease that runs out in a schedule, more than a silence."""
TERMS = Terms(dict.fromkeys(Rule, TERM_S / 86_400))
_UNCLEAR_S = 400
"""How near to the end of a term this test does not say on which side a moment is."""
_BAD = (BuildState.FAILED, BuildState.CANCELLED, BuildState.PARTIAL)
Thing = tuple[Rule, str]


def keep(steps: Steps) -> None:
    """Go once through the rules; nothing goes that was in its term, or that somebody needs."""
    steps.look()
    before, moment = steps.now, the_time()
    keeper = Keeper(steps.world.brittle, TERMS)
    try:
        while not keeper.rounds:
            keeper.turn()
    finally:
        steps.look()
        gone = set(_kept(before)) - set(_kept(steps.now))
        for rule, _ in gone:
            steps.met[f"{rule} removed"] += 1
        early = gone & _protected(before, moment - timedelta(seconds=TERM_S - _UNCLEAR_S))
        assert not early, f"these went before their time: {sorted(early)}"


def keep_all(steps: Steps) -> None:
    """Go once through the rules, undisturbed; then nothing is left whose time is over."""
    keep(steps)
    before = the_time() - timedelta(seconds=TERM_S + _UNCLEAR_S)
    left = set(_kept(steps.now)) & set(_over(steps.now, before))
    assert not left, f"these stay for ever: {sorted(left)}"


def _kept(now: Snapshot) -> Iterator[Thing]:
    """Give everything that a rule may remove and that has not been removed."""
    yield from ((Rule.MODELS, f"{tenant} {digest}") for tenant, digest in now.models)
    for build in now.builds.values():
        if build.events_expired_at is None:
            yield Rule.EVENTS, build.id
    for job in now.jobs.values():
        made = (job.result or {}).get("outputs")
        if job.state is JobState.SUCCEEDED and made and job.result_expired_at is None:
            yield Rule.RESULTS, job.id
    for attempt in _attempts(now):
        if attempt.log_expired_at is None:
            yield Rule.LOGS, f"{attempt.job_id} {attempt.number}"
    for row in now.artifacts:
        if row.engine_expired_at is None:
            yield Rule.QUARANTINED, row.digest


def _protected(now: Snapshot, before: datetime) -> set[Thing]:
    """Return what must stay: its time ends after ``before``, or somebody needs it."""
    safe: set[Thing] = {
        (Rule.MODELS, f"{tenant} {digest}")
        for (tenant, digest), used in now.used.items()
        if used >= before
    }
    recent = {build.id for build in now.builds.values() if not _ended(now, build, before)}
    for build in now.builds.values():
        if build.id in recent:
            safe.add((Rule.MODELS, f"{build.tenant_id} {build.model_digest}"))
            safe.add((Rule.EVENTS, build.id))
    for job in now.jobs.values():
        if job.build_id in recent:
            safe |= {(Rule.RESULTS, job.id), (Rule.RESULTS, str(job.cached_from))}
    for attempt in _attempts(now):
        if attempt.finished_at is None or attempt.finished_at >= before:
            safe.add((Rule.LOGS, f"{attempt.job_id} {attempt.number}"))
    for row in now.artifacts:
        safe |= set(_of_artifact(now, row, before, recent))
    return safe


def _ended(now: Snapshot, build: AnyRow, before: datetime) -> bool:
    """Tell whether a build ended before a moment, and none of its jobs goes on for others."""
    over = build.finished_at is not None and build.finished_at < before
    return over and not any(job.state in LIVE for job in now.jobs_of.get(build.id, ()))


def _of_artifact(now: Snapshot, row: AnyRow, before: datetime, recent: set[str]) -> Iterator[Thing]:
    """Give what an artifact needs: all that it is made of if it is out, else its engine a while."""
    out = row.state is ArtifactState.PUBLISHED
    if out:
        yield Rule.MODELS, f"{row.tenant_id} {row.model_digest}"
    if out or row.created_at >= before or row.build_id in recent:
        yield Rule.QUARANTINED, row.digest
        files = files_of(row)
        for job in now.jobs.values():
            made = (job.result or {}).get("outputs", [])
            if job.tenant_id == row.tenant_id and any(file["digest"] in files for file in made):
                yield Rule.RESULTS, job.id


def _over(now: Snapshot, before: datetime) -> Iterator[Thing]:
    """Give what must have gone by itself: its time ended before a moment, and nobody needs it.

    Results and engines only when every build has been over for so long: then nobody uses them.
    """
    for attempt in _attempts(now):
        if attempt.finished_at is not None and attempt.finished_at < before:
            yield Rule.LOGS, f"{attempt.job_id} {attempt.number}"
    old = {build.id for build in now.builds.values() if _ended(now, build, before)}
    yield from ((Rule.EVENTS, build_id) for build_id in old)
    used = {(row.tenant_id, row.model_digest) for row in _out(now)}
    used |= {(row.tenant_id, row.model_digest) for row in now.builds.values() if row.id not in old}
    for (tenant, digest), since in now.used.items():
        if since < before and (tenant, digest) not in used:
            yield Rule.MODELS, f"{tenant} {digest}"
    if len(old) == len(now.builds):
        yield from _nobodys(now)


def _nobodys(now: Snapshot) -> Iterator[Thing]:
    """Give the results and engines of which nothing is out, where no build goes on."""
    for row in now.artifacts:
        if row.state is ArtifactState.QUARANTINED:
            yield Rule.QUARANTINED, row.digest
    named = {(row.tenant_id, digest) for row in now.artifacts for digest in files_of(row)}
    out = {(job.build_id, job.target) for job in now.in_state(JobState.SUCCEEDED, Stage.PUBLISH)}
    taken = {job.cached_from for job in now.jobs.values() if (job.build_id, job.target) in out}
    for job in now.in_state(JobState.SUCCEEDED):
        made = {(job.tenant_id, file["digest"]) for file in (job.result or {}).get("outputs", [])}
        theirs = (job.build_id, job.target) in out or job.id in taken or made & named
        if now.builds[job.build_id].state in _BAD and job.cached_from is None and not theirs:
            yield Rule.RESULTS, job.id


def _out(now: Snapshot) -> Iterator[AnyRow]:
    return (row for row in now.artifacts if row.state is ArtifactState.PUBLISHED)


def _attempts(now: Snapshot) -> Iterator[AnyRow]:
    return (row for rows in now.attempts.values() for row in rows)
