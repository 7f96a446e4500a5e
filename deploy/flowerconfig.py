"""How Flower shows the farm; passwords and addresses come from FLOWER_* variables.

Flower is a window on the nodes, never the record: what it shows may be lost, the API's answers not.
"""  # noqa: INP001 - Flower reads it by its path

from __future__ import annotations

from typing import Protocol

from tornado.options import options

if not options.basic_auth:
    # Its pages could stop every job; without a password they would be open to everyone.
    raise SystemExit("Set FLOWER_BASIC_AUTH=user:password; Flower is not started without it.")

# All columns a person looks for: what runs, for which model and target, and how far it is.
tasks_columns = "name,state,result,kwargs,received,started,runtime,worker,uuid"
persistent = True
state_save_interval = 60_000
max_tasks = 20_000
purge_offline_workers = 300
# Jobs run from seconds to hours.
task_runtime_metric_buckets = [1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 7200.0, 14400.0, 28800.0]


class Task(Protocol):
    """What is changed of a task before it is shown."""

    state: str


def format_task(task: Task) -> Task:
    """Show a job that reports progress as started, so that it can still be ended from its page."""
    if task.state == "PROGRESS":
        task.state = "STARTED"
    return task
