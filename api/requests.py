"""Around every request: its id, its log line, its numbers, and the last net under errors.

The id is the caller's ``X-Request-Id`` if it is a plain word, else a new one; it is echoed, logged
and named in every problem.
"""

from __future__ import annotations

import re
import secrets
import time
from typing import Any

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import unexpected
from api.measures import Measures

REQUEST_ID = "X-Request-Id"
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,64}")
_QUIET = {"/healthz", "/readyz", "/metrics"}
_GONE = 499
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
log = structlog.get_logger(__name__)


class ObserveRequests:
    """ASGI middleware, the outermost: nothing that happens inside goes unseen."""

    def __init__(self, app: ASGIApp, measures: Measures) -> None:
        """Watch ``app`` and count in ``measures``."""
        self.app = app
        self.measures = measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on under its id."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        watch = _Watch(send, request_id)
        try:
            await self.app(scope, receive, watch.send)
        except ClientDisconnect:
            watch.status = _GONE
        except Exception:
            log.exception("request_crashed", path=scope["path"])
            if watch.status is None:
                await unexpected(scope)(scope, receive, watch.send)
        finally:
            self._tell(scope, watch)

    def _tell(self, scope: Scope, watch: _Watch) -> None:
        route = getattr(scope.get("route"), "path", "none")
        status = watch.status or _GONE
        # A stranger may invent methods; each would be a time series of its own.
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self.measures.request(method, route, status, watch.seconds_to_answer())
        level = log.debug if scope["path"] in _QUIET else log.info
        level(
            "request_answered",
            method=scope["method"],
            route=route,
            path=scope["path"],
            status=status,
            seconds=round(watch.seconds(), 4),
            **_ids(scope),
        )


async def bind_ids(request: Request) -> None:
    """Put the ids in the path on every log line that follows."""
    structlog.contextvars.bind_contextvars(**request.path_params)


class _Watch:
    """Sends on, and remembers the status and when the answer began."""

    def __init__(self, send: Send, request_id: str) -> None:
        self.status: int | None = None
        self._send = send
        self._request_id = request_id
        self._began = time.perf_counter()
        self._answered: float | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._answered = time.perf_counter()
            MutableHeaders(scope=message)[REQUEST_ID] = self._request_id
        await self._send(message)

    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def seconds_to_answer(self) -> float:
        return (self._answered or time.perf_counter()) - self._began


def _request_id(scope: Scope) -> str:
    given = Headers(scope=scope).get(REQUEST_ID, "")
    return given if _PLAIN.fullmatch(given) else secrets.token_hex(8)


def _ids(scope: Scope) -> dict[str, Any]:
    """Return the ids of what the request was about, for its log line."""
    state = scope.get("state", {})
    about = {name: state[name] for name in ("key_id", "node_id") if name in state}
    return about | dict(scope.get("path_params", {}))
