"""Searches: begin one, look at it, follow it to its end, and cancel it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from urllib.parse import quote

from enginefarm.client.transport import Transport
from enginefarm.search import SearchSpec
from enginefarm.search_views import SearchPage, SearchView

_LOOK_EVERY_S = 1.0


class Searches:
    """The searches of the key's tenant."""

    def __init__(self, transport: Transport) -> None:
        """Use a farm's connections."""
        self._transport = transport

    def begin(self, spec: SearchSpec, idempotency_key: str | None = None) -> SearchView:
        """Begin a search, or return the one that was begun under the key."""
        response = self._transport.request(
            "POST",
            "/v1/searches",
            json=spec.model_dump(mode="json"),
            headers={"Idempotency-Key": idempotency_key or uuid.uuid4().hex},
        )
        return self._transport.read(response, SearchView)

    def get(self, search_id: str) -> SearchView:
        """Return a search in full."""
        return self._transport.get(f"/v1/searches/{quote(search_id, safe='')}", SearchView)

    def page(self, *, limit: int = 50, cursor: str | None = None) -> SearchPage:
        """Return a page of searches, newest first."""
        params: dict[str, str | int | list[str]] = {"limit": limit}
        params |= {} if cursor is None else {"cursor": cursor}
        return self._transport.get("/v1/searches", SearchPage, params)

    def cancel(self, search_id: str) -> SearchView:
        """Cancel a search and its candidates."""
        path = f"/v1/searches/{quote(search_id, safe='')}/cancel"
        return self._transport.read(self._transport.request("POST", path), SearchView)

    def watch(self, search_id: str, *, every_s: float = _LOOK_EVERY_S) -> Iterator[SearchView]:
        """Yield the search whenever it has changed, until it is over; the last is its end."""
        before = None
        while True:
            found = self.get(search_id)
            if found != before:
                yield found
            if found.state.terminal:
                return
            before = found
            time.sleep(every_s)
