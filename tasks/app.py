"""The Celery application: how messages travel. It knows no storage.

The database is the truth and a message is a doorbell; hence early acknowledgement, no prefetch, no
results and no chords. Names shown in Flower are bounded (they become metric labels); models and
builds are shown in the arguments.
"""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu import Exchange, Queue

from tasks.messages import RUN_TASK, Ring
from tasks.routing import all_queues

VISIBILITY_S = 600
UNHURRIED = 6
"""On this transport 0 is the most urgent, and no priority at all means 0."""


def make_app(broker_url: str, *, publisher: bool = False) -> Celery:
    """Return the application; a ``publisher`` gives up quickly, since the outbox tries again."""
    app = Celery("enginefarm", broker=broker_url, set_as_current=False)
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        result_serializer="json",
        result_accept_content=["json"],
        task_acks_late=False,
        task_reject_on_worker_lost=False,
        task_ignore_result=True,
        result_backend=None,
        task_queues=[
            Queue(name, Exchange(name, type="direct"), routing_key=name) for name in all_queues()
        ],
        task_create_missing_queues=False,
        task_default_queue=all_queues()[0],
        task_default_priority=UNHURRIED,
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=True,
        worker_max_tasks_per_child=1,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_send_task_events=True,
        task_send_sent_event=True,
        worker_soft_shutdown_timeout=30,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_connection_timeout=3,
        task_publish_retry=False,
        broker_transport_options=_transport(publisher=publisher),
        worker_hijack_root_logger=False,
    )
    return app


def _transport(*, publisher: bool) -> dict[str, Any]:
    transport: dict[str, Any] = {
        "visibility_timeout": VISIBILITY_S,
        "socket_timeout": 30,
        "socket_connect_timeout": 3,
        "socket_keepalive": True,
        "health_check_interval": 10,
    }
    if publisher:
        transport |= {"socket_timeout": 3, "max_retries": 1, "interval_start": 0.1}
    return transport


def ring(app: Celery, message: Ring, queue: str, *, priority: int, shown: dict[str, str]) -> None:
    """Announce a job on its queue; ``shown`` is what Flower shows of it."""
    stage, _, arch = queue.partition(".")
    model = "".join(c if c.isalnum() else "-" for c in shown.get("model", "model"))[:40]
    app.send_task(
        RUN_TASK,
        kwargs=message.model_dump(),
        queue=queue,
        priority=priority,
        task_id=f"{stage}-{model}-{arch}-{message.job_id}-a{message.attempt}",
        shadow=f"{stage} {arch}",
        argsrepr="-",
        kwargsrepr=repr(shown),
        ignore_result=True,
    )
