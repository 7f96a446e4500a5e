"""Announce jobs whose turn it is and that a node could take now. Several dispatchers take turns."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

import structlog
from celery import Celery
from kombu.exceptions import OperationalError
from sqlalchemy import Row

from enginefarm.errors import Unavailable
from enginefarm.state import PRECISION_STAGES, Stage
from enginefarm.target import Target
from storage import backlog, nodes
from storage.database import Session, now
from storage.models import Build, Job, Outbox
from tasks.app import ring
from tasks.farm import Farm, Policy
from tasks.fault_points import reach
from tasks.fleet import description_of
from tasks.memory import room_of
from tasks.messages import Ring
from tasks.routing import NO_PLUGINS, needs_node_alone, serves
from tasks.schedule import Announced, Seat, Share, Spent, Use, Wish, choose

_log = structlog.get_logger()
_Asked = tuple[str, str, str | None, str | None, bool, str | None]
"""Of a job: its stage, target, version, SKU, whether it is of a comparison, its plugins."""


def dispatch(farm: Farm, app: Celery) -> int:
    """Send the rings whose turn it is; return how many went out.

    A ring whose transaction fails after it was sent is sent again: claims tolerate that.

    Raises:
        Unavailable: the broker is away (``broker_away``); the rows stay unsent.
    """
    with farm.database.transaction() as session:
        if backlog.is_empty(session) or not backlog.take_turn(session):
            return 0
        chosen = _choose(session, farm.policy)
        if not chosen:
            return 0
        rows = backlog.rings(session, [wish.ring for wish in chosen])
        for wish in chosen:
            if wish.ring in rows:
                _send(app, *rows[wish.ring])
                reach("dispatch.sent")
    reach("dispatch.committed")
    _log.info("rings_sent", count=len(rows))
    return len(rows)


def _choose(session: Session, policy: Policy) -> Sequence[Wish]:
    seats = _seats(session)
    queues: dict[str, int] = {}
    for seat in seats:
        if seat.running < seat.slots and not seat.alone:
            for queue in seat.queues:
                queues[queue] = max(queues.get(queue, 0), seat.memory_bytes or 0)
    rows = backlog.wishes(session, queues, policy.ageing_s) if queues else ()
    if not rows:
        return ()
    able = _Able(session)
    wishes = [
        Wish(
            ring=row.ring,
            queue=row.queue,
            tenant=row.tenant_id,
            group=row.grouped,
            priority=row.priority,
            waited_s=float(row.waited_s),
            bumped=row.bumped,
            alone=needs_node_alone(row.stage),
            memory_bytes=row.memory_bytes,
            nodes=able.of(row),
        )
        for row in rows
    ]
    since = now() - timedelta(seconds=policy.ring_again_s)
    announced = [
        Announced(row.queue, needs_node_alone(row.stage), able.of(row))
        for row in backlog.announced(session, since)
    ]
    use = _use(session, {wish.tenant for wish in wishes}, policy)
    return choose(wishes, seats, announced, use, policy.ageing_s)


class _Able:
    """Which nodes can do a job that names more than its queue does."""

    def __init__(self, session: Session) -> None:
        self._nodes = {row.id: description_of(row) for row in nodes.live(session)}
        self._known: dict[_Asked, frozenset[str] | None] = {}

    def of(self, row: Row[Any]) -> frozenset[str] | None:
        asked = (row.stage, row.target, row.version, row.sku, row.compares, row.plugins)
        if asked not in self._known:
            self._known[asked] = self._find(asked)
        return self._known[asked]

    def _find(self, asked: _Asked) -> frozenset[str] | None:
        stage, text, version, sku, compares, named = asked
        target, plugins = Target.parse(text), json.loads(named) if named else NO_PLUGINS
        refined = stage not in PRECISION_STAGES and (target.refined or sku or compares)
        if not (refined or plugins):
            return None
        return frozenset(
            id_
            for id_, told in self._nodes.items()
            if (told.compares or not compares)
            and serves(told, Stage(stage), target, version, None, sku, plugins)
        )


def _seats(session: Session) -> list[Seat]:
    taken = backlog.busy(session)
    nobody = backlog.Busy(0, 0)
    return [
        Seat(
            node=node.id,
            queues=frozenset(node.queues),
            slots=int(node.description.get("slots", 1)),
            running=taken.get(node.id, nobody).running,
            alone=taken.get(node.id, nobody).benchmarks > 0,
            memory_bytes=room_of(description_of(node)),
        )
        for node in nodes.live(session)
    ]


def _use(session: Session, tenant_ids: Collection[str], policy: Policy) -> Use:
    spent = backlog.used(session, now() - timedelta(seconds=policy.share_window_s))
    groups = {
        (row.tenant_id, row.grouped): Spent(float(row.seconds), float(row.idle_s)) for row in spent
    }
    shares = {}
    for tenant_id, row in backlog.tenants(session, tenant_ids).items():
        mine = [entry for entry in spent if entry.tenant_id == tenant_id]
        shares[tenant_id] = Share(
            weight=row.weight,
            used_s=sum(float(entry.seconds) for entry in mine),
            running=sum(entry.running for entry in mine),
            most_running=row.max_running,
        )
    return Use(shares, groups)


def _send(app: Celery, row: Outbox, job: Job, build: Build) -> None:
    row.sent_at = now()
    shown = {"model": build.model_name, "target": job.target, "build": build.id}
    message = Ring(job_id=row.job_id, attempt=row.attempt)
    try:
        ring(app, message, row.queue, priority=job.priority, shown=shown)
    except (OperationalError, OSError) as error:
        raise Unavailable(
            "The broker does not take messages.",
            code="broker_away",
            why=f"{type(error).__name__}: {str(error)[:200]}",
            fix="Nothing is lost; the rings are sent when it is back.",
        ) from error
