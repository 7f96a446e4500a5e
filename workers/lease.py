"""Keep a job's lease alive while its child works, and learn when to stop.

A thread beats; it relays progress and the news of the log, and turns what it hears into one reason
to stop: ``cancelled`` (a person), ``lease_lost`` (the job is another's), ``lease_expired`` (the
farm has been away for as long as the lease lasts: somebody else may have the job by now).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import structlog

from enginefarm.errors import FarmError, LeaseLost, Unavailable
from tasks.messages import Assignment, LeaseBeat, Progress
from workers.farm_api import WorkerApi
from workers.joblog import JobLog

CANCELLED, LOST, EXPIRED = "cancelled", "lease_lost", "lease_expired"
log = structlog.get_logger(__name__)


class Lease:
    """The lease of one attempt; use it as a context."""

    def __init__(
        self,
        api: WorkerApi,
        assignment: Assignment,
        job_log: JobLog,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take over a lease that the claim has just given."""
        self._api = api
        self._assignment = assignment
        self._log = job_log
        self._clock = clock
        self._began = clock()
        self._deadline = clock() + assignment.lease_s
        self._reason: str | None = None
        self._progress: Progress | None = None
        self._mark = 0
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._beat_on, name="lease", daemon=True)

    def __enter__(self) -> Self:
        """Start beating."""
        context = structlog.contextvars.get_contextvars()
        self._thread = threading.Thread(
            target=self._beat_on, args=(context,), name="lease", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop beating."""
        self._done.set()
        self._thread.join(timeout=15)

    @property
    def stop_reason(self) -> str | None:
        """Why the work must end, if it must: a lease ends by the clock, answered or not."""
        if self._reason != LOST and self._clock() >= self._deadline:
            self._stop(EXPIRED, None)
        return self._reason

    @property
    def held(self) -> bool:
        """Whether the farm would still listen to this attempt."""
        return self.stop_reason in (None, CANCELLED)

    @property
    def seconds_left(self) -> float:
        """How long the work may go on if no more beats get through."""
        return max(self._deadline - self._clock(), 0.0)

    @property
    def report_s(self) -> float:
        """How long it is worth telling the end of work that ended within its lease.

        It holds no device, and if it was the farm that was away it still takes the report.
        """
        return max(self._deadline + self._assignment.lease_s - self._clock(), 0.0)

    def progress(self, said: Mapping[str, object]) -> Progress:
        """Take what the child said; the next beat carries it."""
        fraction = said.get("fraction")
        made = Progress(
            fraction=float(fraction) if isinstance(fraction, int | float) else None,
            phase=str(said.get("phase", ""))[:200],
            detail=str(said.get("detail", ""))[:500],
            elapsed_s=self._clock() - self._began,
        )
        with self._lock:
            self._progress = made
        return made

    def _beat_on(self, context: Mapping[str, object] | None = None) -> None:
        structlog.contextvars.bind_contextvars(**(context or {}))
        while not self._done.wait(self._assignment.heartbeat_s):
            self.beat()
            if not self.held:
                return

    def beat(self) -> None:
        """Beat once; never raises, since a missed beat is not yet the end."""
        with self._lock:
            progress = self._progress
        news, mark = self._log.since(self._mark)
        asked = self._clock()
        message = LeaseBeat(
            attempt=self._assignment.attempt,
            lease_token=self._assignment.lease_token,
            progress=progress,
            log_tail=news,
        )
        try:
            reply = self._api.lease_beat(self._assignment.job_id, message)
        except LeaseLost as error:
            self._stop(LOST, error)
        except Unavailable as error:
            log.warning("lease_beat_missed", why=error.why, left_s=round(self.seconds_left))
        except FarmError as error:
            # Refused outright (a revoked credential, say): the lease will not live on.
            self._stop(LOST, error)
        else:
            self._mark = mark
            self._deadline = asked + reply.lease_s  # from when it was asked: the farm's is later
            if reply.cancel:
                self._stop(CANCELLED, None)

    def _stop(self, reason: str, error: FarmError | None) -> None:
        if self._reason is None or (self._reason == CANCELLED and reason != CANCELLED):
            self._reason = reason
            log.warning("job_stopping", reason=reason, code=error.code if error else None)
