"""Uploads are read outside of this process, so many at once and no more; the others wait.

Who waits holds no thread: with fifty uploads at once the other requests go on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
from fastapi import Request

from api.settings import ApiSettings
from intake import endings
from intake.findings import DatasetFound, ModelFound
from intake.reader import Reader

Found = TypeVar("Found")


class Reading:
    """The readers of one API process. Made inside its event loop."""

    def __init__(self, settings: ApiSettings) -> None:
        """Read with the settings' limits."""
        self._settings = settings
        self._reader = Reader(settings.reader_limits())
        self._turns = anyio.Semaphore(settings.max_readers)
        # Threads of their own: readers never take those that answer other requests.
        self._threads = anyio.CapacityLimiter(settings.max_readers)

    async def model(self, path: Path) -> ModelFound:
        """Return what a model file holds; see :meth:`intake.reader.Reader.model`.

        Raises:
            Unavailable: none came free in time (code ``readers_busy``).
        """
        return await self._in_turn(lambda: self._reader.model(path))

    async def dataset(self, path: Path) -> DatasetFound:
        """Return what a dataset holds; see :meth:`intake.reader.Reader.dataset`.

        Raises:
            Unavailable: none came free in time (code ``readers_busy``).
        """
        return await self._in_turn(
            lambda: self._reader.dataset(
                path,
                max_bytes=self._settings.max_dataset_bytes,
                max_expanded_bytes=self._settings.max_dataset_expanded_bytes,
            )
        )

    async def _in_turn(self, read: Callable[[], Found]) -> Found:
        try:
            with anyio.fail_after(self._settings.reader_wait_s):
                await self._turns.acquire()
        except TimeoutError as error:
            raise endings.busy(self._settings.reader_wait_s) from error
        try:
            return await anyio.to_thread.run_sync(read, limiter=self._threads)
        finally:
            self._turns.release()


def reading_of(request: Request) -> Reading:
    """Return the readers behind this application."""
    reading: Reading = request.app.state.reading
    return reading
