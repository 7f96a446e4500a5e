"""Rings go out once, the urgent ones first, and none is lost while the broker is away."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from enginefarm.errors import Unavailable
from enginefarm.state import JobState, Stage
from storage import outbox
from storage.database import now
from tasks.app import make_app
from tasks.cancel import cancel
from tasks.dispatcher import dispatch
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import Scene

QUEUE = "check.cpu"


@pytest.fixture
def broker(valkey_url: str) -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(valkey_url)
    client.flushdb()
    yield client
    client.close()


def heard(broker: redis.Redis, queue: str = QUEUE) -> list[dict[str, Any]]:
    """Return the messages on a queue, in whichever of its priority lists they are."""
    keys = [key for key in broker.keys(f"{queue}*") if broker.type(key) == b"list"]
    return [json.loads(row) for key in keys for row in broker.lrange(key, 0, -1)]


def test_a_ring_says_only_which_attempt_of_which_job(
    scene: Scene, node: FakeNode, broker: redis.Redis, valkey_url: str
) -> None:
    build_id = scene.submit(priority=0)
    job = scene.job(build_id, Stage.CHECK)

    assert dispatch(scene.farm, make_app(valkey_url, publisher=True)) == 1
    (message,) = heard(broker)
    body = json.loads(base64.b64decode(message["body"]))
    assert body[1] == {"job_id": job.id, "attempt": 1}
    assert message["properties"]["priority"] == 0
    headers = message["headers"]
    assert headers["shadow"] == "check cpu"
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
    scene: Scene, node: FakeNode, broker: redis.Redis, valkey_url: str
) -> None:
    for seed in range(6):
        Scene.on(scene.farm, f"tenant-{seed}").submit()
    apps = [make_app(valkey_url, publisher=True) for _ in range(3)]
    with ThreadPoolExecutor(len(apps)) as pool:
        sent = list(pool.map(lambda app: dispatch(scene.farm, app), apps))

    assert sum(sent) == len(heard(broker)) == 6


def test_the_more_urgent_ring_goes_out_first(
    scene: Scene, node: FakeNode, broker: redis.Redis, valkey_url: str
) -> None:
    calm = Scene.on(scene.farm, "calm").submit(priority=9)
    urgent = Scene.on(scene.farm, "urgent").submit(priority=0)
    with scene.farm.database.transaction() as session:
        order = [job.build_id for _, job in outbox.due(session, 10)]

    assert order == [urgent, calm]


def test_a_ring_for_work_that_is_no_longer_wanted_is_not_sent(
    scene: Scene, node: FakeNode, broker: redis.Redis, valkey_url: str
) -> None:
    build_id = scene.submit()
    cancel(scene.farm, scene.tenant_id, build_id)
    dispatch(scene.farm, make_app(valkey_url, publisher=True))

    assert heard(broker) == []
    assert all(ring.sent_at is not None for ring in scene.rings(build_id))


def test_a_ring_that_must_wait_waits(
    scene: Scene, node: FakeNode, broker: redis.Redis, valkey_url: str
) -> None:
    build_id = scene.submit()
    node.end(node.take(scene.job(build_id, Stage.CHECK)), JobState.FAILED)
    app = make_app(valkey_url, publisher=True)
    dispatch(scene.farm, app)

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
