"""Rings go out once, the urgent ones first, and none is lost while the broker is away."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import redis
from sqlalchemy import select

from enginefarm.errors import Unavailable
from enginefarm.state import Blame, JobState, Stage
from storage import outbox, tenants
from storage.database import now
from storage.models import Job, Outbox
from tasks.app import make_app
from tasks.bump import bump
from tasks.cancel import cancel
from tasks.dispatcher import dispatch
from tasks.reconciler import reconcile
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import Scene

QUEUE = "repair.cpu"


@pytest.fixture
def broker(valkey_url: str) -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(valkey_url)
    client.flushdb()
    yield client
    client.flushdb()  # a node of another test would hear what was sent
    client.close()


def heard(broker: redis.Redis, queue: str = QUEUE) -> list[dict[str, Any]]:
    """Return the messages on a queue, in whichever of its priority lists they are."""
    keys = [key for key in broker.keys(f"{queue}*") if broker.type(key) == b"list"]
    return [json.loads(row) for key in keys for row in broker.lrange(key, 0, -1)]


def test_a_ring_says_only_which_attempt_of_which_job(
    scene: Scene, node: FakeNode, broker: redis.Redis, valkey_url: str
) -> None:
    build_id = scene.submit(priority=0)
    job = scene.job(build_id, Stage.REPAIR)

    assert dispatch(scene.farm, make_app(valkey_url, publisher=True)) == 1
    (message,) = heard(broker)
    body = json.loads(base64.b64decode(message["body"]))
    assert body[1] == {"job_id": job.id, "attempt": 1}
    assert message["properties"]["priority"] == 0
    headers = message["headers"]
    assert headers["shadow"] == "repair cpu"
    assert build_id in headers["kwargsrepr"]
    assert "doubler" in headers["kwargsrepr"]


def test_what_was_sent_is_not_sent_again(
    scene: Scene, node: FakeNode, broker: redis.Redis, valkey_url: str
) -> None:
    scene.submit()
    app = make_app(valkey_url, publisher=True)

    assert [dispatch(scene.farm, app) for _ in range(3)] == [1, 0, 0]
    assert len(heard(broker)) == 1


def test_several_dispatchers_send_each_ring_once(
    scene: Scene, broker: redis.Redis, valkey_url: str
) -> None:
    FakeNode(scene.farm, "node-a", slots=6)
    for seed in range(6):
        Scene.on(scene.farm, f"tenant-{seed}").submit()
    apps = [make_app(valkey_url, publisher=True) for _ in range(3)]
    with ThreadPoolExecutor(len(apps)) as pool:
        sent = list(pool.map(lambda app: dispatch(scene.farm, app), apps))
    sent.append(dispatch(scene.farm, apps[0]))

    assert sum(sent) == len(heard(broker)) == 6


def announce(scene: Scene, node: FakeNode, valkey_url: str) -> str:
    """Let one job be announced, and be done; return its build."""
    assert dispatch(scene.farm, make_app(valkey_url, publisher=True)) == 1
    with scene.farm.database.transaction() as session:
        rung = select(Job).join(Outbox).where(Job.state == JobState.QUEUED)
        job = session.scalars(rung.where(Outbox.sent_at.is_not(None))).one()
    node.fail(node.take(job), "unsupported_operator", Blame.PERSON)
    return job.build_id


def test_what_was_begun_goes_on_before_a_younger_build_begins(
    scene: Scene, node: FakeNode, broker: redis.Redis, valkey_url: str
) -> None:
    older, younger = scene.submit(seed=1), scene.submit(seed=2, model=scene.other())
    app = make_app(valkey_url, publisher=True)
    assert dispatch(scene.farm, app) == 1
    work = node.take(scene.job(older, Stage.REPAIR))
    node.tell(work, node.done(work))
    scene.settle()

    assert dispatch(scene.farm, app) == 1
    assert scene.rings(younger)[0].sent_at is None
    assert scene.job(older, Stage.CHECK).state is JobState.QUEUED


def test_a_ring_goes_out_only_when_a_node_could_take_the_job(
    scene: Scene, node: FakeNode, broker: redis.Redis, valkey_url: str
) -> None:
    first, second = scene.submit(seed=1, priority=4), scene.submit(seed=2, model=scene.other())
    app = make_app(valkey_url, publisher=True)
    assert [dispatch(scene.farm, app) for _ in range(2)] == [1, 0]
    work = node.take(scene.job(first, Stage.REPAIR))
    assert dispatch(scene.farm, app) == 0
    node.fail(work, "unsupported_operator", Blame.PERSON)

    assert dispatch(scene.farm, app) == 1
    assert scene.rings(second)[0].sent_at is not None


def test_the_more_urgent_ring_goes_out_first_and_a_bumped_build_before_it(
    scene: Scene, node: FakeNode, broker: redis.Redis, valkey_url: str
) -> None:
    calm, urgent, late = (
        scene.submit(model=scene.other(), priority=priority) for priority in (9, 0, 9)
    )
    with scene.farm.database.transaction() as session:
        bump(session, scene.tenant_id, late)

    assert [announce(scene, node, valkey_url) for _ in range(3)] == [late, urgent, calm]


def test_tenants_take_turns_and_so_do_the_keys_of_one(
    scene: Scene, node: FakeNode, broker: redis.Redis, valkey_url: str
) -> None:
    campaign = [scene.submit(model=scene.other()) for _ in range(4)]
    rival = Scene.on(scene.farm, "rival")
    theirs = rival.submit()
    person = replace(scene, api_key_id="a-person")
    mine = person.submit(model=scene.other())
    order = [announce(scene, node, valkey_url) for _ in range(6)]

    assert order.index(theirs) <= 1
    assert order.index(mine) < order.index(campaign[2])


def test_a_tenant_at_its_limit_of_running_jobs_waits(
    scene: Scene, broker: redis.Redis, valkey_url: str
) -> None:
    node = FakeNode(scene.farm, "node-a", slots=4)
    with scene.farm.database.transaction() as session:
        tenants.get(session, scene.tenant_id).max_running = 1
    first = scene.submit(model=scene.other())
    scene.submit(model=scene.other())
    app = make_app(valkey_url, publisher=True)
    assert dispatch(scene.farm, app) == 1
    node.take(scene.job(first, Stage.REPAIR))

    assert dispatch(scene.farm, app) == 0


def test_a_ring_for_work_that_is_no_longer_wanted_is_not_sent(
    scene: Scene, node: FakeNode, broker: redis.Redis, valkey_url: str
) -> None:
    build_id = scene.submit()
    cancel(scene.farm, scene.tenant_id, build_id)
    assert dispatch(scene.farm, make_app(valkey_url, publisher=True)) == 0
    reconcile(scene.farm)

    assert heard(broker) == []
    assert all(ring.sent_at is not None for ring in scene.rings(build_id))


def test_a_ring_that_must_wait_waits(
    scene: Scene, node: FakeNode, broker: redis.Redis, valkey_url: str
) -> None:
    build_id = scene.submit()
    node.end(node.take(scene.job(build_id, Stage.REPAIR)), JobState.FAILED)
    assert dispatch(scene.farm, make_app(valkey_url, publisher=True)) == 0
    reconcile(scene.farm)

    assert heard(broker) == []
    assert [ring.sent_at is None for ring in scene.rings(build_id)] == [False, True]


def test_while_the_broker_is_away_nothing_is_lost(
    scene: Scene, node: FakeNode, broker: redis.Redis, valkey_url: str
) -> None:
    build_id = scene.submit()
    with pytest.raises(Unavailable) as refused:
        dispatch(scene.farm, make_app("redis://127.0.0.1:1/0", publisher=True))

    assert refused.value.code == "broker_away"
    assert [ring.sent_at for ring in scene.rings(build_id)] == [None]
    assert dispatch(scene.farm, make_app(valkey_url, publisher=True)) == 1


def test_old_rings_are_forgotten_and_unsent_ones_never(scene: Scene, node: FakeNode) -> None:
    sent, unsent = scene.submit(), Scene.on(scene.farm, "other")
    kept = unsent.submit()
    scene.mark_sent(sent, 60)
    with scene.farm.database.transaction() as session:
        outbox.forget(session, now())

    assert scene.rings(sent) == []
    assert len(scene.rings(kept)) == 1
