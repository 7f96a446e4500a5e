"""Watch a build: server-sent events that are taken up again where a broken connection left off."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
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


def watch(
    transport: Transport,
    build_id: str,
    *,
    after: str | None = None,
    patience_s: float = PATIENCE_S,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[EventView]:
    """Yield what happens to a build until it is over; ``after`` is the id of an event seen before.

    Raises:
        Unavailable: the farm was away for longer than ``patience_s``.
        NotFound: there is no such build.
    """
    last, failures, lost_at = after, 0, clock()
    while True:
        try:
            for event in _once(transport, build_id, last):
                last, failures, lost_at = event.id, 0, clock()
                yield event
                if is_last(event):
                    return
        except Unavailable:
            if clock() - lost_at > patience_s:
                raise
        # The stream ended or broke before the build did.
        sleep(PAUSES_S[min(failures, len(PAUSES_S) - 1)])
        failures += 1


def is_last(event: EventView) -> bool:
    """Tell whether nothing can follow this event."""
    if event.kind not in {"build", "snapshot"}:
        return False
    state = event.data.get("state")
    return isinstance(state, str) and state in set(BuildState) and BuildState(state).terminal


def _once(transport: Transport, build_id: str, after: str | None) -> Iterator[EventView]:
    headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
    if after is not None:
        headers["Last-Event-ID"] = after
    path = f"/v1/builds/{build_id}/events"
    with transport.stream(path, headers, read_s=SILENCE_S) as response:
        for frame in frames(response.iter_lines()):
            try:
                yield EventView.model_validate_json(frame.data)
            except ValidationError as error:
                raise unreadable(transport.url, error) from error
