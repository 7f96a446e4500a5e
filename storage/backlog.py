"""What waits to be announced, who could take it, and who has used what.

The rule that chooses is ``tasks.schedule``; here are only its questions, each one statement.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    case,
    exists,
    func,
    literal,
    or_,
    select,
    text,
    update,
)

from enginefarm.state import JobState, Stage
from storage.database import Session, now
from storage.models import Attempt, Build, Job, Outbox, Tenant

EACH = 32
"""How many jobs of each tenant, group, queue, target, SKU and plugins are looked at in a turn."""
_COMPARES = Job.recipe["comparison_rules"].as_string().is_not(None)
_PLUGINS = Job.recipe["plugins"].as_string()
_ASKED = (
    Job.queue,
    Job.stage,
    Job.target,
    Job.backend_version.label("version"),
    Job.sku,
    _COMPARES.label("compares"),
    _PLUGINS.label("plugins"),
)
_TURN = 0x72696E6773  # any number all dispatchers agree on: they take turns on this advisory lock


@dataclass(frozen=True)
class Busy:
    """How much of a node is taken."""

    running: int
    benchmarks: int


def take_turn(session: Session) -> bool:
    """Tell whether this transaction is the one that announces now."""
    taken = session.execute(text("SELECT pg_try_advisory_xact_lock(:turn)"), {"turn": _TURN})
    return bool(taken.scalar())


def is_empty(session: Session) -> bool:
    """Tell whether no ring waits to go out now: an idle farm asks this often, and only this."""
    due = exists().where(Outbox.sent_at.is_(None), Outbox.not_before <= now())
    return not session.scalar(select(due))


def busy(session: Session) -> dict[str, Busy]:
    """Return how much of each node is taken, by the node's id."""
    measuring = func.count().filter(Job.stage == Stage.BENCHMARK)
    rows = session.execute(
        select(Job.node_id, func.count(), measuring)
        .where(Job.state == JobState.RUNNING, Job.node_id.is_not(None))
        .group_by(Job.node_id)
    )
    return {node_id: Busy(count, alone) for node_id, count, alone in rows if node_id is not None}


def announced(session: Session, since: datetime) -> Sequence[Row[Any]]:
    """Return the jobs whose ring went out since, and was not yet answered, nor is to go out again.

    Columns: queue, stage, target, version, sku, compares, plugins (JSON).
    """
    rung = exists().where(
        Outbox.job_id == Job.id, Outbox.attempt == Job.attempt, Outbox.sent_at >= since
    )
    # Who was declined is a wish again: its old ring must not hold the seat that the new one needs.
    again = exists().where(
        Outbox.job_id == Job.id, Outbox.attempt == Job.attempt, Outbox.sent_at.is_(None)
    )
    found: Sequence[Any] = session.execute(
        select(*_ASKED)
        .where(Job.state == JobState.QUEUED, Job.queue.is_not(None), rung, ~again)
        .order_by(Job.id)
    ).all()
    return found


def group_of() -> ColumnElement[str]:
    """Return the SQL of what a build belongs to within its tenant."""
    campaign = func.coalesce(Build.labels["campaign"].as_string(), "")
    return func.concat(func.coalesce(Build.api_key_id, ""), "/", campaign)


def _place_in_group(waited: ColumnElement[Any], ageing_s: float) -> ColumnElement[int]:
    level = func.greatest(0, Job.priority - func.floor(waited / ageing_s))
    bumped = case((Build.bumped_at.is_not(None), 0), else_=1)
    return func.row_number().over(
        # Of each target: a queue's jobs for one SKU must not hide those that any node can do.
        partition_by=(
            Job.tenant_id,
            *(group_of(), Job.queue, Job.target, Job.sku, _COMPARES, _PLUGINS),
        ),
        order_by=(bumped, level, Build.created_at, Outbox.id),
    )


def wishes(session: Session, queues: Mapping[str, int], ageing_s: float) -> Sequence[Row[Any]]:
    """Return the jobs on these queues that may be announced now, some of each group.

    ``queues``: the most memory that a free node gives a job; who needs more is left out.

    Columns: ring, queue, stage, target, version, sku, compares, plugins, tenant_id, grouped,
    priority, waited_s, bumped, memory_bytes.
    """
    moment = now()
    fits = or_(Job.peak_bytes.is_(None), Job.peak_bytes <= case(queues, value=Job.queue))
    # Of the build, not of the job: who was asked for first is finished first.
    waited = func.extract("epoch", literal(moment) - Build.created_at)
    place = _place_in_group(waited, ageing_s)
    found = (
        select(
            Outbox.id.label("ring"),
            *_ASKED,
            Job.tenant_id,
            group_of().label("grouped"),
            Job.priority,
            waited.label("waited_s"),
            Build.bumped_at.is_not(None).label("bumped"),
            func.coalesce(Job.peak_bytes, 0).label("memory_bytes"),
            place.label("place"),
        )
        .join(Job, Job.id == Outbox.job_id)
        .join(Build, Build.id == Job.build_id)
        .where(
            Outbox.sent_at.is_(None),
            Outbox.not_before <= moment,
            Job.state == JobState.QUEUED,
            Job.attempt == Outbox.attempt,
            Job.queue.in_(list(queues)) & fits,
        )
        .subquery()
    )
    return session.execute(select(found).where(found.c.place <= EACH)).all()


def used(session: Session, since: datetime) -> Sequence[Row[Any]]:
    """Return who has used anything since a moment.

    Columns: tenant_id, grouped, seconds, running, idle_s (since a job of the group began).
    """
    moment = now()
    ended = func.coalesce(Attempt.finished_at, literal(moment))
    seconds = func.extract("epoch", ended - func.greatest(Attempt.started_at, literal(since)))
    idle = func.extract("epoch", literal(moment) - func.max(Attempt.started_at))
    found: Sequence[Any] = session.execute(
        select(
            Attempt.tenant_id,
            group_of().label("grouped"),
            func.sum(seconds).label("seconds"),
            func.count().filter(Attempt.finished_at.is_(None)).label("running"),
            idle.label("idle_s"),
        )
        .join(Job, Job.id == Attempt.job_id)
        .join(Build, Build.id == Job.build_id)
        .where(
            Attempt.node_id.is_not(None),
            (Attempt.finished_at.is_(None)) | (Attempt.finished_at > since),
        )
        .group_by(Attempt.tenant_id, text("grouped"))
    ).all()
    return found


def tenants(session: Session, tenant_ids: Collection[str]) -> dict[str, Tenant]:
    """Return these tenants."""
    rows = session.scalars(select(Tenant).where(Tenant.id.in_(tenant_ids)))
    return {row.id: row for row in rows}


def rings(session: Session, ring_ids: Collection[int]) -> dict[int, tuple[Outbox, Job, Build]]:
    """Return these rings with what they announce, locked for this sender."""
    rows = session.execute(
        select(Outbox, Job, Build)
        .join(Job, Job.id == Outbox.job_id)
        .join(Build, Build.id == Job.build_id)
        .where(Outbox.id.in_(ring_ids), Outbox.sent_at.is_(None))
        .with_for_update(of=Outbox, skip_locked=True)
    )
    return {ring.id: (ring, job, build) for ring, job, build in rows}


def drop_stale(session: Session) -> None:
    """Call those rings sent that nobody needs to hear any more."""
    wanted = exists().where(
        Job.id == Outbox.job_id, Job.state == JobState.QUEUED, Job.attempt == Outbox.attempt
    )
    session.execute(
        update(Outbox)
        .where(Outbox.sent_at.is_(None), ~wanted)
        .values(sent_at=now())
        .execution_options(synchronize_session=False)
    )
