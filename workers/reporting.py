"""A child's voice: progress as JSON lines on an inherited pipe, and the flag that says stop."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass

from workers.backends.base import ProgressSink

LEAST_INTERVAL_S = 0.1


class PipeSink:
    """See :class:`workers.backends.base.ProgressSink`; the fraction it passes on never falls."""

    def __init__(self, fd: int | None) -> None:
        """Write to ``fd``; without one, only keep the flag."""
        self._fd = fd
        self._lock = threading.Lock()
        self._best: float | None = None
        self._phase = ""
        self._said_at = 0.0
        self._stop = False

    def stop(self) -> None:
        """Ask the work to end; called by the signal handler."""
        self._stop = True

    @property
    def stopping(self) -> bool:
        """Whether the work shall end."""
        return self._stop

    def report(self, fraction: float | None, phase: str, detail: str = "") -> None:
        """Say how far it is, not more than ten times a second unless the phase is new."""
        with self._lock:
            if fraction is not None:
                self._best = max(self._best or 0.0, min(fraction, 1.0))
            now = time.monotonic()
            if phase == self._phase and now - self._said_at < LEAST_INTERVAL_S:
                return
            self._phase, self._said_at = phase, now
            line = {"fraction": self._best, "phase": phase, "detail": detail}
        self._write(json.dumps(line).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        if self._fd is None:
            return
        try:
            os.write(self._fd, line)
        except BrokenPipeError:
            self._fd = None  # nobody listens any more; the death signal is on its way


@dataclass(frozen=True)
class PartSink:
    """A sink for one part of a whole: its 0..1 becomes ``start``..``start + share``."""

    whole: ProgressSink
    start: float
    share: float

    @property
    def stopping(self) -> bool:
        """Whether the whole shall end."""
        return self.whole.stopping

    def report(self, fraction: float | None, phase: str, detail: str = "") -> None:
        """Say how far the part is."""
        placed = None if fraction is None else self.start + self.share * fraction
        self.whole.report(placed, phase, detail)
