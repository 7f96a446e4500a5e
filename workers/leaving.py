"""A node that is told to leave: what runs may end within a grace, then it is handed back.

The process of a job hands it back at SIGTERM. A service manager tells the node's own process alone,
which waits for its jobs; so this tells theirs when the grace is over.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

import structlog

LOOK_S = 0.2
log = structlog.get_logger(__name__)


class Leaving:
    """What happens to the jobs that run when a node is told to leave."""

    def __init__(self, grace_s: float, jobs: Callable[[], Iterable[int]]) -> None:
        """Give the processes that ``jobs`` names ``grace_s`` seconds."""
        self._grace_s = grace_s
        self._jobs = jobs
        self._begun = threading.Event()

    def begin(self) -> None:
        """Let the grace begin; told again, it does not begin again."""
        if not self._begun.is_set():
            self._begun.set()
            threading.Thread(target=self._wait_and_tell, name="leaving", daemon=True).start()

    def _wait_and_tell(self) -> None:
        pause, told = threading.Event(), set[int]()
        pause.wait(self._grace_s)
        while True:  # until this process ends: a job may have been heard of at the last moment
            for pid in set(self._jobs()) - told:
                told.add(pid)
                log.warning("grace_is_over", grace_s=self._grace_s)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            pause.wait(LOOK_S)
