"""Repair what crashed: lapsed leases, lost rings, clocks that ran out, nodes that fell silent.

Each repair is one short transaction that looks again under the locks, so it may be run by several
processes and at any moment.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

import structlog

from enginefarm.errors import Failure, InvalidRequest
from enginefarm.state import Blame, JobState, Stage
from storage import attempts, backlog, builds, jobs, nodes, outbox, pulses
from storage.database import Session, now
from storage.models import Build, Job
from tasks.absence import GAP_S, Heard, excused_until
from tasks.chains import is_past
from tasks.conclude import conclude
from tasks.failing import fail_attempt
from tasks.farm import Farm
from tasks.fault_points import reach
from tasks.loops import one_by_one
from tasks.messages import FARM_AWAY
from tasks.moves import fail, locked, move, roll_up
from tasks.release import release

_log = structlog.get_logger()
Repair = Callable[[Session, Farm, Build, Job], set[str]]


def reconcile(farm: Farm) -> None:
    """Look once for everything that needs mending, and mend it."""
    with farm.database.transaction() as session:
        pulses.beat(session, "reconciler", GAP_S)
    _mark_silent_nodes(farm)
    _ring_again(farm)
    _forget_rings(farm)
    with farm.database.transaction() as session:
        lapsed = jobs.with_lapsed_lease(session)
        overdue = jobs.queued_too_long(session)
        waiting = jobs.waiting_for_a_node(session)
        orphaned = jobs.orphaned_followers(session)
    for job_ids, repair in (
        (lapsed, _lapsed),
        (overdue, _overdue),
        (waiting, _waiting),
        (orphaned, _orphaned),
    ):
        one_by_one(job_ids, partial(_mend, farm, repair))


def _mend(farm: Farm, repair: Repair, job_id: str) -> None:
    with farm.database.transaction() as session:
        seen = jobs.find(session, job_id)
        if seen is None:
            return
        builds.lock_tenant(session, seen.tenant_id)
        found = locked(session, job_id)
        touched = repair(session, farm, *found) if found else set()
        session.flush()
        reach("reconcile.written")
    for build_id in touched:
        farm.progress.wake(build_id)


def _mark_silent_nodes(farm: Farm) -> None:
    before = now() - timedelta(seconds=farm.policy.node_silent_s)
    with farm.database.transaction() as session:
        if _is_api_away(session, farm):
            return  # nobody hears the nodes, so their silence says nothing
        silent = nodes.mark_silent(session, before)
    for name in silent:
        _log.warning("node_silent", node=name)


def _is_api_away(session: Session, farm: Farm) -> bool:
    """Tell whether no API was heard for a while, or one came back just now."""
    api = next((row for row in pulses.of_all(session) if row.part == "api"), None)
    if api is None:
        return False
    if api.beat_at < now() - timedelta(seconds=GAP_S):
        return True
    grace = timedelta(seconds=farm.policy.return_grace_s)
    return api.back_at is not None and now() < api.back_at + grace


def _ring_again(farm: Farm) -> None:
    before = now() - timedelta(seconds=farm.policy.ring_again_s)
    with farm.database.transaction() as session:
        for job in jobs.unheard(session, before):
            outbox.add(session, job)
            _log.info("ring_repeated", job=job.id, build=job.build_id)


def _forget_rings(farm: Farm) -> None:
    before = now() - timedelta(seconds=farm.policy.rings_kept_s)
    with farm.database.transaction() as session:
        backlog.drop_stale(session)
        outbox.forget(session, before)


def _lapsed(session: Session, farm: Farm, build: Build, job: Job) -> set[str]:
    """Take a job from a node (or a publisher) that has not been heard for a whole lease."""
    if job.state is not JobState.RUNNING or job.lease_until is None or job.lease_until >= now():
        return set()
    excused = _excused_until(session, farm, job)
    if excused is not None and now() < excused:
        return set()
    failure = _farm_away(job) if excused is not None else _node_lost(job)
    dumped = failure.model_dump(mode="json")
    attempts.end(session, job, job.attempt, JobState.FAILED, failure=dumped)
    if job.cancel_requested_at is not None:
        move(session, job, JobState.CANCELLED, note="cancelled; its node was silent")
        return conclude(session, build, job)
    if Stage(job.stage) is Stage.PUBLISH:
        move(session, job, JobState.WAITING, lease_until=None)
        return {build.id}
    return fail_attempt(session, farm.policy, build, job, failure)


def _excused_until(session: Session, farm: Farm, job: Job) -> datetime | None:
    """Return until when a node may report that could not, because nobody listened."""
    if job.lease_until is None or Stage(job.stage) is Stage.PUBLISH:
        return None
    parts = [Heard(row.beat_at, row.away_from, row.back_at) for row in pulses.of_all(session)]
    return excused_until(job.lease_until, parts, now(), farm.policy.return_grace_s)


def _node_lost(job: Job) -> Failure:
    return Failure(
        code="node_lost",
        blame=Blame.NODE,
        message="The node that ran this attempt fell silent.",
        why=f"Its lease ended at {job.lease_until:%H:%M:%S} UTC without a sign of life.",
        fix="The attempt is made again on another node.",
        context={"node": job.node_id},
    )


def _farm_away(job: Job) -> Failure:
    return Failure(
        code=FARM_AWAY,
        blame=Blame.FARM,
        message="The farm was away for longer than the lease of this attempt.",
        why=f"Its lease ended at {job.lease_until:%H:%M:%S} UTC while no node could report.",
        fix="The attempt is made again and not counted.",
        context={"node": job.node_id},
    )


def _overdue(session: Session, _farm: Farm, build: Build, job: Job) -> set[str]:
    if job.state is not JobState.QUEUED:
        return set()
    failure = Failure(
        code="pending_too_long",
        blame=Blame.FARM,
        message=f"No node took the job within {job.limits['pending_s']:g} s.",
        why=f"Queue {job.queue} was not served in time.",
        fix="See GET /v1/nodes; submit again, or with a longer limits.pending_s.",
    )
    fail(session, job, failure, JobState.EXPIRED)
    return conclude(session, build, job)


def _waiting(session: Session, _farm: Farm, build: Build, job: Job) -> set[str]:
    """Start a job whose node has come; end it if none came within the window."""
    if job.state is not JobState.WAITING or job.key is not None or job.wait_until is None:
        return set()
    earlier = [
        row
        for row in jobs.of_build(session, build.tenant_id, build.id)
        if row.target == job.target and row.position < job.position and row.sku is None
    ]
    if not all(map(is_past, earlier)):
        return set()
    try:
        release(session, build, job)
    except InvalidRequest as error:
        fail(session, job, error.as_failure())
        return conclude(session, build, job)
    if jobs.find(session, job.id) is None or _has_started(job) or job.state.terminal:
        # It may have been dropped: the node that came does not do this stage. Or it cannot run
        # any more: what it rests on was revoked.
        roll_up(session, build)
        return {build.id}
    if job.wait_until > now():
        return set()
    failure = Failure(
        code="no_node_in_time",
        blame=Blame.FARM,
        message=f"No node that can {job.stage} {job.target} came in time.",
        why=f"The build waited as long as wait_for_node allowed; its last note: {job.note}.",
        fix="Start such a node, or choose a target that GET /v1/targets shows as served.",
    )
    fail(session, job, failure, JobState.EXPIRED)
    return conclude(session, build, job)


def _has_started(job: Job) -> bool:
    return job.key is not None


def _orphaned(session: Session, _farm: Farm, build: Build, job: Job) -> set[str]:
    return conclude(session, build, job) if job.state.terminal else set()
