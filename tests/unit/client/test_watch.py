"""Watching a build survives broken connections, misses nothing and ends when the build does."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.client.events import Watch, frames
from enginefarm.client.transport import Transport
from enginefarm.errors import NotFound, Unavailable
from tests.unit.client.support.server import Answer, Handler, LoopbackFarm
from tests.unit.client.support.views import event


def _stream(*parts: bytes, cut: bool = False) -> Answer:
    """Return an answer that streams events, and breaks off if ``cut``."""

    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for part in parts:
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        if not cut:
            handler.wfile.write(b"0\r\n\r\n")
        handler.close_connection = True

    return answer


def _frame(number: int, kind: str, data: dict[str, Any]) -> bytes:
    view = event(number, kind, data)
    return f"id: {view.id}\nevent: {kind}\ndata: {view.model_dump_json()}\n\n".encode()


def _watch(loopback: LoopbackFarm, answers: list[Answer], **options: Any) -> list[str]:  # noqa: ANN401 - fields of Watch
    rest = iter(answers)

    def answer(handler: Handler) -> None:
        next(rest)(handler)

    loopback.routes["/v1/builds/bld_1/events"] = answer
    transport = Transport(loopback.url, None)
    try:
        watch = Watch(transport, "bld_1", sleep=lambda _: None, **options)
        return [f"{each.id} {each.kind}" for each in watch.events()]
    finally:
        transport.close()


def test_a_watch_that_breaks_goes_on_after_the_last_event(loopback: LoopbackFarm) -> None:
    seen = _watch(
        loopback,
        [
            _stream(
                b"retry: 2000\n\n",
                _frame(1, "snapshot", {"state": "running"}),
                _frame(2, "job", {"state": "running"}),
                _frame(3, "job", {"state": "succeeded"})[:-20],
                cut=True,
            ),
            _stream(b": alive\n\n", _frame(3, "job", {"state": "succeeded"})),
            _stream(_frame(4, "build", {"state": "succeeded"}), _frame(5, "job", {})),
        ],
    )

    assert seen == ["1.0-0 snapshot", "2.0-0 job", "3.0-0 job", "4.0-0 build"]
    assert [request.headers.get("Last-Event-ID") for request in loopback.seen] == [
        None,
        "2.0-0",
        "3.0-0",
    ]


def test_a_build_that_is_over_already_is_told_by_its_snapshot(loopback: LoopbackFarm) -> None:
    seen = _watch(loopback, [_stream(_frame(9, "snapshot", {"state": "failed"}))])

    assert seen == ["9.0-0 snapshot"]


def test_a_watch_that_has_seen_the_last_event_ends(loopback: LoopbackFarm) -> None:
    assert _watch(loopback, [lambda handler: handler.reply(204, b"")], last="9.0-0") == []


def test_a_watch_gives_up_when_the_farm_stays_away(loopback: LoopbackFarm) -> None:
    times = iter(range(0, 10_000, 50))

    with pytest.raises(Unavailable):
        _watch(
            loopback,
            [lambda handler: handler.problem(503, "unavailable", "database_away")] * 9,
            patience_s=100.0,
            clock=lambda: float(next(times)),
        )
    assert 2 <= len(loopback.seen) <= 4


def test_a_watch_of_an_unknown_build_is_not_tried_again(loopback: LoopbackFarm) -> None:
    with pytest.raises(NotFound):
        _watch(loopback, [lambda handler: handler.problem(404, "not-found", "unknown_build")])
    assert len(loopback.seen) == 1


def test_frames_keep_their_id_and_skip_comments() -> None:
    lines = [
        "retry: 5",
        "",
        ": alive",
        "",
        "id: 1",
        "data: a",
        "data: b",
        "",
        "data:c",
        "",
        "data: d",
    ]

    assert [(frame.id, frame.data) for frame in frames(lines)] == [("1", "a\nb"), ("1", "c")]
