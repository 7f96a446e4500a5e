"""Watch a build: server-sent events that are taken up again where a broken connection left off."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from enginefarm.client.problems import unreadable
from enginefarm.client.transport import Transport
from enginefarm.errors import Unavailable
from enginefarm.state import BuildState
from enginefarm.views import EventView

SILENCE_S = 45.0
"""The farm speaks every fifteen seconds at least, so this long a silence is a dead connection."""
PATIENCE_S = 120.0
"""How long the farm may be away before a watcher gives up."""
_NO_CONTENT = 204
PAUSES_S = (0.2, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Frame:
    """One server-sent event: its id and its data."""

    id: str
    data: str


def frames(lines: Iterable[str]) -> Iterator[Frame]:
    """Read server-sent events from lines; one that is cut off is not an event."""
    last_id, data = "", list[str]()
    for line in lines:
        if not line:
            if data:
                yield Frame(last_id, "\n".join(data))
            data = []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            last_id = value
        elif name == "data":
            data.append(value)


@dataclass
class Watch:
    """One watcher of one build: remembers the last event, so that none is missed or told twice."""

    transport: Transport
    build_id: str
    last: str | None = None
    patience_s: float = PATIENCE_S
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def events(self) -> Iterator[EventView]:
        """Yield what happens to the build until it is over.

        Raises:
            Unavailable: the farm was away for longer than ``patience_s``.
            NotFound: there is no such build.
        """
        failures, lost_at = 0, self.clock()
        while True:
            before = self.last
            try:
                if (yield from self._once()):
                    return
            except Unavailable:
                if self.last == before and self.clock() - lost_at > self.patience_s:
                    raise
            if self.last != before:
                failures, lost_at = 0, self.clock()
            # The stream ended or broke before the build did.
            self.sleep(PAUSES_S[min(failures, len(PAUSES_S) - 1)])
            failures += 1

    def _once(self) -> Generator[EventView, None, bool]:
        """Yield one connection's events; return whether the build is over."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if self.last is not None:
            headers["Last-Event-ID"] = self.last
        path = f"/v1/builds/{self.build_id}/events"
        with self.transport.stream(path, headers, read_s=SILENCE_S) as response:
            if response.status_code == _NO_CONTENT:
                return True
            for frame in frames(response.iter_lines()):
                try:
                    event = EventView.model_validate_json(frame.data)
                except ValidationError as error:
                    raise unreadable(self.transport.url, error) from error
                self.last = event.id
                yield event
                if is_last(event):
                    return True
        return False


def is_last(event: EventView) -> bool:
    """Tell whether nothing can follow this event."""
    if event.kind not in {"build", "snapshot"}:
        return False
    state = event.data.get("state")
    return isinstance(state, str) and state in set(BuildState) and BuildState(state).terminal
