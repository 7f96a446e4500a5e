"""A body is counted as it arrives, and what is declared too large is not read at all."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from api.limits import MULTIPART_OVERHEAD, BodyLimits, BodyTooLarge, LimitBodies

LIMITS = BodyLimits(model=100, dataset=50, part=30, worker=20, other=10)


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("/v1/models", 100 + MULTIPART_OVERHEAD),
        ("/v1/datasets", 50 + MULTIPART_OVERHEAD),
        ("/v1/uploads/upl_1/files/0", 30),
        ("/v1/uploads/upl_1/files/0/more", 10),
        ("/v1/uploads/upl_1/complete", 10),
        ("/worker/v1/claims", 20),
        ("/v1/builds", 10),
        ("/anything", 10),
    ],
)
def test_each_path_has_its_limit(path: str, limit: int) -> None:
    assert LIMITS.of(path) == limit


def read_all(pieces: list[bytes], declared: str | None = None) -> tuple[int, list[Message]]:
    """Return how many bytes the application saw, and the messages it never asked for."""
    messages: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    seen = 0

    async def application(_scope: Scope, receive: Receive, _send: Send) -> None:
        nonlocal seen
        for _ in pieces:
            seen += len((await receive())["body"])

    async def receive() -> Message:
        return messages.pop(0)

    async def send(_message: Message) -> None:
        pytest.fail("nothing is sent here")

    headers = [] if declared is None else [(b"content-length", declared.encode())]
    scope = {"type": "http", "path": "/v1/builds", "headers": headers}
    asyncio.run(LimitBodies(application, LIMITS)(scope, receive, send))
    return seen, messages


def test_a_body_of_exactly_the_limit_passes() -> None:
    assert read_all([b"12345", b"67890"]) == (10, [])


def test_a_body_without_a_declared_length_is_stopped_where_it_passes_the_limit() -> None:
    with pytest.raises(BodyTooLarge) as caught:
        read_all([b"12345", b"678901", b"more"])

    assert caught.value.reason.code == "too_large"
    assert caught.value.reason.context == {"limit_bytes": 10}


def test_a_body_declared_too_large_is_not_read() -> None:
    with pytest.raises(BodyTooLarge):
        read_all([b"1"], declared="11")


def test_a_length_that_is_no_number_is_left_to_the_server() -> None:
    assert read_all([b"1"], declared="²")[0] == 1
