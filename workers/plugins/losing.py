"""How a job's process tells the node's own that a library is not what was announced.

The process that beats has announced it, and hears of it by a pipe that its children inherit.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable

import structlog

LONGEST = 512
"""Bytes that a pipe takes whole, from whichever process: no two lines become one."""
log = structlog.get_logger(__name__)


class Losses:
    """Made before the processes of jobs are; they call :meth:`tell`, and the node hears it."""

    def __init__(self, heard: Callable[[str, str], None]) -> None:
        """``heard`` gets the backend and the digest of each library that is gone."""
        self._heard = heard
        self._read, self._write = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="plugin-losses", daemon=True)

    def start(self) -> None:
        """Hear what is told from now on."""
        self._thread.start()

    def tell(self, backend: str, digest: str) -> None:
        """Tell that a library cannot be had any more."""
        line = json.dumps([backend, digest]).encode() + b"\n"
        log.error("plugin_gone", backend=backend, digest=digest)
        if len(line) <= LONGEST:
            os.write(self._write, line)

    def _listen(self) -> None:
        with os.fdopen(self._read, encoding="utf-8") as told:
            for line in told:
                backend, digest = json.loads(line)
                self._heard(str(backend), str(digest))
