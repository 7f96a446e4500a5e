"""Show a job's progress in Flower: ``task-progress`` events, sent by a thread of its own.

A window, never the record: an event that cannot be sent is dropped, and a broker that hangs must
not hold up the job, its lease or its cancel.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

import structlog

from tasks.messages import Progress

INTERVAL_S = 5.0
log = structlog.get_logger(__name__)


def words(progress: Progress) -> str:
    """Return the one line that Flower shows as the result of a running task."""
    share = "" if progress.fraction is None else f"{progress.fraction:.0%} "
    return f"{share}{progress.phase} {progress.detail}".strip() + f" ({progress.elapsed_s:.0f} s)"


class FlowerRelay:
    """Sends the newest progress of one task every few seconds."""

    def __init__(self, app: Any, task_id: str, hostname: str) -> None:  # noqa: ANN401 - Celery has no types
        """Speak for the task that runs in this process."""
        self._app = app
        self._task_id = task_id
        self._hostname = hostname
        self._latest: Progress | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._relay, name="flower", daemon=True)

    def __enter__(self) -> Self:
        """Start relaying."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop; an event on its way is not waited for."""
        self._ended.set()

    def show(self, progress: Progress) -> None:
        """Take note; only the newest is ever sent."""
        self._latest = progress

    def _relay(self) -> None:
        sent: Progress | None = None
        while not self._ended.wait(INTERVAL_S if sent else 1.0):
            latest = self._latest
            if latest is not None and latest is not sent:
                self._send(latest)
                sent = latest

    def _send(self, progress: Progress) -> None:
        try:
            with self._app.events.default_dispatcher(hostname=self._hostname) as dispatcher:
                dispatcher.send(
                    "task-progress",
                    uuid=self._task_id,
                    progress=progress.fraction,
                    result=words(progress),
                    retry=False,
                )
        except Exception as error:  # noqa: BLE001 - a window must never break the house
            log.debug("flower_event_dropped", why=str(error))
