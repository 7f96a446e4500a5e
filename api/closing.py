"""Whether the server is about to stop: then streams end, so that their watchers come back.

A watcher would wait for the next event until it is cut off. A stream that ends by itself lets it
come back at once, and with its last event id it misses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class Closing:
    """One server's end, and those who wait for something else meanwhile. One event loop's own."""

    def __init__(self) -> None:
        """Begin with a server that serves."""
        self.begun = False
        self._waits: set[anyio.CancelScope] = set()

    def begin(self) -> None:
        """Let every stream end, now."""
        self.begun = True
        for wait in self._waits:
            wait.cancel()

    @contextmanager
    def ends_wait(self) -> Iterator[None]:
        """Leave the block, wherever it waits, as soon as the server is about to stop."""
        with anyio.CancelScope() as wait:
            if self.begun:
                wait.cancel()
            self._waits.add(wait)
            try:
                yield
            finally:
                self._waits.discard(wait)
