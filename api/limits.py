"""How large a request body may be: counted as it arrives, refused without reading on.

A declared length above the limit is refused before the first byte is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from enginefarm.errors import TooLarge

MULTIPART_OVERHEAD = 64 * 1024
"""What part headers and boundaries may add to the files themselves."""
_PART = re.compile(r"/v1/uploads/[^/]+/files/[^/]+")


@dataclass(frozen=True)
class BodyLimits:
    """The limits in bytes, by what a path takes."""

    model: int
    dataset: int
    part: int
    worker: int
    other: int

    def of(self, path: str) -> int:
        """Return the limit of a path."""
        if path == "/v1/models":
            return self.model + MULTIPART_OVERHEAD
        if path == "/v1/datasets":
            return self.dataset + MULTIPART_OVERHEAD
        if _PART.fullmatch(path):
            return self.part
        if path.startswith("/worker/"):
            return self.worker
        return self.other


class BodyTooLarge(HTTPException):
    """The form in which FastAPI lets an error pass that is raised while a body is read."""

    def __init__(self, limit: int) -> None:
        """Name the limit that was passed."""
        super().__init__(status_code=413)
        self.reason = TooLarge(
            f"The body is larger than {limit} bytes.",
            code="too_large",
            why="The operator limits what this path takes.",
            fix="Send less, or ask the operator to raise the limit.",
            limit_bytes=limit,
        )


class LimitBodies:
    """ASGI middleware that lets no more of a body through than its path may take."""

    def __init__(self, app: ASGIApp, limits: BodyLimits) -> None:
        """Guard ``app``."""
        self.app = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with a counting ``receive``."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        counter = _Counter(self.limits.of(scope["path"]), _declared_length(scope), receive)
        await self.app(scope, counter.receive, send)


class _Counter:
    def __init__(self, limit: int, declared: int, receive: Receive) -> None:
        self._limit = limit
        self._declared = declared
        self._receive = receive
        self._seen = 0

    async def receive(self) -> Message:
        if self._declared > self._limit:
            raise BodyTooLarge(self._limit)
        message = await self._receive()
        if message["type"] == "http.request":
            self._seen += len(message.get("body", b""))
            if self._seen > self._limit:
                raise BodyTooLarge(self._limit)
        return message


def _declared_length(scope: Scope) -> int:
    text = Headers(scope=scope).get("content-length", "")
    return int(text) if text.isdecimal() and text.isascii() else 0
