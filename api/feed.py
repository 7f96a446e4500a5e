"""Turn a build's rows and progress entries into one stream of frames that can be taken up again.

Knows neither database nor Valkey, only how to ask them: ``rows_after`` for the numbered events,
``entries_after`` for progress. A row is never skipped; progress may be, since it is not the truth.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import anyio
import structlog

from api import views
from api.closing import Closing
from enginefarm.errors import Forbidden, InvalidRequest, Unauthenticated, Unavailable
from enginefarm.state import BuildState
from enginefarm.views import EventView
from storage.models import Event

_CURSOR = re.compile(r"(?P<seq>[0-9]{1,9})\.(?P<stream>(?P<ms>[0-9]{1,20})-(?P<nth>[0-9]{1,20}))")
_STREAM_END = 1 << 64
"""Valkey refuses numbers from here on, which would look as if it were away."""
RETRY_MS = 2000
POLL_S = 1.0
"""How often the database is asked while Valkey is away."""
LOOK_S = 5.0
"""How long at most a wake-up that got lost can delay an event."""
PATIENCE_S = 2.0
"""How long Valkey may be late with an answer."""
BATCH = 200
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Cursor:
    """How far a watcher has come: in the database's events, and in Valkey's stream."""

    seq: int = 0
    stream: str = "0-0"

    def __str__(self) -> str:
        """Return the event id."""
        return f"{self.seq}.{self.stream}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Read an event id.

        Raises:
            InvalidRequest: code ``invalid_event_id``.
        """
        match = _CURSOR.fullmatch(text)
        if match is None or max(int(match["ms"]), int(match["nth"])) >= _STREAM_END:
            raise not_an_id(text)
        return cls(int(match["seq"]), match["stream"])


RowsAfter = Callable[[int, int], Awaitable[Sequence[Event]]]
Entries = list[tuple[str, dict[str, Any]]]
EntriesAfter = Callable[[str, int], Awaitable[Entries]]


class Feed:
    """One watcher's stream of one build."""

    def __init__(
        self,
        build_id: str,
        cursor: Cursor,
        *,
        rows_after: RowsAfter,
        entries_after: EntriesAfter,
        keep_alive_s: float,
        closing: Closing,
    ) -> None:
        """Start after ``cursor``; end early when ``closing`` begins."""
        self._build_id = build_id
        self._cursor = cursor
        self._rows_after = rows_after
        self._entries_after = entries_after
        self._keep_alive_s = keep_alive_s
        self._closing = closing
        self._spoke = time.monotonic()

    async def frames(self, snapshot: dict[str, Any] | None, *, over: bool) -> AsyncIterator[str]:
        """Yield frames until the build is over; ``over``: it was when the snapshot was taken.

        They end before that when the server is about to stop.
        """
        yield f"retry: {RETRY_MS}\n\n"
        if snapshot is not None:
            yield self._frame("snapshot", None, snapshot, datetime.now(UTC))
            if over:
                return
        while not self._closing.begun:
            rows = await self._rows()
            if rows is None:
                return
            for row in rows:
                self._cursor = Cursor(row.seq, self._cursor.stream)
                yield frame(views.event(row, str(self._cursor)))
                if ends(row):
                    return
            for stream, data in await self._wait():
                self._cursor = Cursor(self._cursor.seq, stream)
                told = self._progress(stream, data)
                if told is not None:
                    yield told
            if time.monotonic() - self._spoke >= self._keep_alive_s:
                self._spoke = time.monotonic()
                yield ": alive\n\n"

    async def _rows(self) -> Sequence[Event] | None:
        """Return what is new; None if the watcher's key is no longer good."""
        try:
            rows = await self._rows_after(self._cursor.seq, BATCH)
        except (Unauthenticated, Forbidden) as error:
            log.info("watch_ended", build_id=self._build_id, code=error.code)
            return None
        except Unavailable as error:
            log.warning("watch_without_database", build_id=self._build_id, code=error.code)
            await anyio.sleep(POLL_S)
            return []
        if rows:
            self._spoke = time.monotonic()
        return rows

    async def _wait(self) -> Entries:
        """Wait for something to happen, but never longer than a lost wake-up may cost."""
        silence = time.monotonic() - self._spoke
        seconds = max(0.01, min(LOOK_S, self._keep_alive_s - silence))
        entries: Entries = []
        with self._closing.ends_wait():
            try:
                with anyio.fail_after(seconds + PATIENCE_S):
                    entries = await self._entries_after(self._cursor.stream, int(seconds * 1000))
            except (Unavailable, TimeoutError) as error:
                log.warning("watch_without_valkey", build_id=self._build_id, error=repr(error))
                await anyio.sleep(min(POLL_S, seconds))
        return entries

    def _progress(self, stream: str, data: dict[str, Any]) -> str | None:
        """Tell of progress; an entry without a job only woke us."""
        if "job" not in data:
            return None
        at = datetime.fromtimestamp(int(stream.split("-", maxsplit=1)[0]) / 1000, UTC)
        return self._frame("progress", data["job"], data["data"], at)

    def _frame(self, kind: str, job: str | None, data: dict[str, Any], at: datetime) -> str:
        self._spoke = time.monotonic()
        return frame(
            EventView(
                id=str(self._cursor), kind=kind, build=self._build_id, job=job, data=data, at=at
            )
        )


def frame(event: EventView) -> str:
    """Return an event in the form of ``text/event-stream``; its JSON is one line."""
    return f"id: {event.id}\nevent: {event.kind}\ndata: {event.model_dump_json()}\n\n"


def not_an_id(text: str, why: str = "") -> InvalidRequest:
    """Return the refusal of an event id that was never given out."""
    return InvalidRequest(
        f"{text[:80]!r} is not an event id.",
        code="invalid_event_id",
        why=why,
        fix="Send the id of the last event you saw, unchanged, or none to start afresh.",
    )


def ends(row: Event) -> bool:
    """Tell whether this event is the last of its build."""
    return row.kind == "build" and BuildState(row.data["state"]).terminal
