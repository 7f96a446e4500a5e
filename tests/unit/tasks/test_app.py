"""How messages travel: once, as JSON, on the declared queues only."""

from __future__ import annotations

import pytest
from celery import Celery

from enginefarm.state import Stage
from enginefarm.target import BACKEND_ARCHITECTURES, Target
from tasks.app import make_app
from tasks.messages import RUN_TASK
from tasks.routing import NODE_STAGES, all_queues, queue_for


def app() -> Celery:
    return make_app("redis://127.0.0.1:1/0")


def test_a_lost_connection_cannot_make_a_message_run_twice() -> None:
    conf = app().conf

    assert conf.task_acks_late is False
    assert conf.task_reject_on_worker_lost is False
    assert conf.worker_cancel_long_running_tasks_on_connection_loss is False
    assert conf.worker_disable_prefetch is True


def test_only_json_is_understood() -> None:
    conf = app().conf

    assert conf.accept_content == conf.result_accept_content == ["json"]
    assert conf.task_serializer == "json"


def test_no_result_is_kept() -> None:
    assert app().conf.result_backend is None
    assert app().conf.task_ignore_result is True


def test_every_queue_that_a_target_needs_is_declared_and_no_other_is_made() -> None:
    declared = {queue.name for queue in app().conf.task_queues}
    needed = {
        queue_for(stage, Target(backend=backend, arch=arch))
        for backend, arches in BACKEND_ARCHITECTURES.items()
        for arch in arches
        for stage in NODE_STAGES
    }

    assert needed <= declared == set(all_queues())
    assert app().conf.task_create_missing_queues is False


def test_each_queue_has_an_exchange_of_its_own() -> None:
    bound = [(queue.exchange.name, queue.routing_key) for queue in app().conf.task_queues]

    assert bound == [(name, name) for name in all_queues()]


def test_a_message_without_a_priority_is_not_the_most_urgent() -> None:
    assert app().conf.task_default_priority


def test_publishing_has_no_queue_of_a_node() -> None:
    assert Stage.PUBLISH not in NODE_STAGES
    assert RUN_TASK == "enginefarm.run"


def test_flower_is_given_every_queue_and_finds_the_broker_where_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://127.0.0.1:1/7")
    from tasks.flower import app as flower

    assert {queue.name for queue in flower.conf.task_queues} == set(all_queues())
    assert flower.conf.task_default_queue in all_queues()
    connection = flower.connection()
    assert (connection.hostname, connection.port, connection.virtual_host) == ("127.0.0.1", 1, "7")
