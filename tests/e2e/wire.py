"""A wire between two parts of the farm, which a test makes slow, silent, broken, or full.

It is a TCP proxy on loopback with a thread of its own. What goes through is passed on as it came;
only a wire that is ``full`` looks at requests: it answers each PUT as a store without room does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from urllib.parse import urlsplit

HOST = "127.0.0.1"
_PIECE = 1 << 16
_SLOW_S = 0.1


class Way(StrEnum):
    """What a wire does with what goes through it."""

    OPEN = "open"
    SLOW = "slow"
    SILENT = "silent"
    CUT = "cut"
    TORN = "torn"
    FULL = "full"


class Wire:
    """One address that leads to another."""

    def __init__(self, goal: str) -> None:
        """Lead to the server at ``goal``, a URL."""
        there = urlsplit(goal)
        self._goal = (there.hostname or HOST, there.port or 80)
        self._way = Way.OPEN
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._ends: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.refused = 0
        self._server = self._loop.run_until_complete(asyncio.start_server(self._join, HOST, 0))
        self.url = f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}"
        self._thread = threading.Thread(target=self._loop.run_forever, name="wire")
        self._thread.start()

    @contextmanager
    def made(self, way: Way) -> Iterator[None]:
        """Let the wire be as told while the block runs."""
        self.make(way)
        try:
            yield
        finally:
            self.open()

    def open(self) -> None:
        """Let everything through."""
        self.make(Way.OPEN)

    def make(self, way: Way) -> None:
        """Let the wire be as told from now on."""
        asyncio.run_coroutine_threadsafe(self._make(way), self._loop).result(10)

    def close(self) -> None:
        """Cut everything and end."""
        self.make(Way.CUT)
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _make(self, way: Way) -> None:
        self._way = way
        self._changed.set()
        self._changed = asyncio.Event()
        if way is Way.CUT:
            for end in list(self._ends):
                end.transport.abort()

    async def _end(self) -> None:
        self._server.close()
        tasks = [task for task in self._tasks if not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _join(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._ends.add(back)
        try:
            if self._way is Way.CUT:
                return
            far, out = await asyncio.open_connection(*self._goal)
            self._ends.add(out)
            try:
                await self._both_ways(near, out, far, back)
            finally:
                self._ends.discard(out)
                out.transport.abort()
        except OSError:
            return  # as the ends see it, too
        finally:
            self._ends.discard(back)
            self._tasks.discard(task)
            back.transport.abort()

    async def _both_ways(
        self,
        near: asyncio.StreamReader,
        out: asyncio.StreamWriter,
        far: asyncio.StreamReader,
        back: asyncio.StreamWriter,
    ) -> None:
        """Carry both ways until one end is done; what was on its way arrives."""
        ways = [
            asyncio.create_task(self._carry(near, out, back)),
            asyncio.create_task(self._carry(far, back, None)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            with suppress(OSError):
                await back.drain()
                back.close()
                await back.wait_closed()

    async def _carry(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        back: asyncio.StreamWriter | None,
    ) -> None:
        while piece := await source.read(_PIECE):
            while self._way is Way.SILENT:
                await self._changed.wait()
            if self._way is Way.SLOW:
                await asyncio.sleep(_SLOW_S)
            if self._way is Way.TORN:
                sink.write(piece[: len(piece) // 2])
                await sink.drain()
                return
            if self._way is Way.FULL and back is not None and _writes(piece):
                self.refused += 1
                back.write(_NO_ROOM)
                await back.drain()
                while await source.read(_PIECE):
                    continue  # whoever closed now would take the answer away with it
                return
            sink.write(piece)
            await sink.drain()


def _writes(piece: bytes) -> bool:
    return piece.startswith(b"PUT ")


_BODY = b"<Error><Code>InsufficientStorage</Code><Message>No room.</Message></Error>"
_NO_ROOM = (
    b"HTTP/1.1 507 Insufficient Storage\r\nContent-Type: application/xml\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%b"
) % (len(_BODY), _BODY)
