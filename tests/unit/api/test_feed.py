"""A watcher misses no event, whatever Valkey does, and the stream ends with the build."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from api import feed as feed_module
from api.closing import Closing
from api.feed import Cursor, Entries, Feed
from enginefarm.errors import InvalidRequest, Unavailable
from storage.models import Event

AT = datetime(2026, 11, 30, tzinfo=UTC)


def event(seq: int, kind: str = "job", **data: str) -> Event:
    return Event(
        build_id="bld_1",
        seq=seq,
        tenant_id="ten_1",
        job_id="job_1",
        kind=kind,
        data=dict(data),
        created_at=AT,
    )


class Source:
    """Rows and entries that become visible one round after the other."""

    def __init__(self, rows: list[list[Event]], entries: list[Entries | Exception]) -> None:
        self.rows = rows
        self.entries = entries
        self.asked: list[tuple[int, str]] = []
        self.seq = 0

    async def rows_after(self, seq: int, limit: int) -> Sequence[Event]:
        self.seq = seq
        return self.rows.pop(0) if self.rows else []

    async def entries_after(self, stream: str, block_ms: int) -> Entries:
        self.asked.append((self.seq, stream))
        await asyncio.sleep(0)
        found = self.entries.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def watch(
    source: Source,
    cursor: Cursor | None = None,
    snapshot: dict[str, Any] | None = None,
    *,
    over: bool = False,
    keep_alive_s: float = 15.0,
) -> list[str]:
    async def run() -> list[str]:
        feed = Feed(
            "bld_1",
            cursor or Cursor(),
            rows_after=source.rows_after,
            entries_after=source.entries_after,
            keep_alive_s=keep_alive_s,
            closing=Closing(),
        )
        return [frame async for frame in feed.frames(snapshot, over=over)]

    return asyncio.run(run())


def kinds(frames: list[str]) -> list[tuple[str, str]]:
    found = []
    for frame in frames:
        fields = dict(line.split(": ", 1) for line in frame.strip().splitlines())
        if "id" in fields:
            assert json.loads(fields["data"])["id"] == fields["id"]
            found.append((fields["event"], fields["id"]))
    return found


END = event(3, "build", state="succeeded")


def test_snapshot_then_rows_then_progress_then_the_end() -> None:
    source = Source(
        [[event(1)], [event(2)], [END]],
        [[("7-0", {}), ("7-1", {"job": "job_1", "data": {"fraction": 0.5}})], [("8-0", {})]],
    )

    frames = watch(source, snapshot={"state": "running"})

    assert frames[0] == "retry: 2000\n\n"
    assert kinds(frames) == [
        ("snapshot", "0.0-0"),
        ("job", "1.0-0"),
        ("progress", "1.7-1"),
        ("job", "2.7-1"),
        ("build", "3.8-0"),
    ]


def test_who_comes_back_goes_on_where_the_stream_broke_off() -> None:
    source = Source([[END]], [])

    frames = watch(source, Cursor.parse("2.7-1"))

    assert source.seq == 2
    assert kinds(frames) == [("build", "3.7-1")]


def test_a_build_that_is_over_is_told_in_one_frame() -> None:
    frames = watch(Source([], []), Cursor(3), {"state": "failed"}, over=True)

    assert kinds(frames) == [("snapshot", "3.0-0")]


def test_without_valkey_the_database_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "POLL_S", 0.001)
    away = Unavailable("Valkey is away.", code="valkey_away")
    source = Source([[], [event(1)], [END]], [away, away])

    frames = watch(source)

    assert kinds(frames) == [("job", "1.0-0"), ("build", "3.0-0")]


def test_silence_is_broken_by_comments() -> None:
    source = Source([[], [], [END]], [[], []])

    frames = watch(source, keep_alive_s=0.0)

    assert frames[1:3] == [": alive\n\n", ": alive\n\n"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1.",
        "-1.0-0",
        "1.0",
        "x.0-0",
        "1.0-0 ",
        "9" * 10 + ".0-0",
        f"1.{1 << 64}-0",
        f"1.0-{1 << 64}",
    ],
)
def test_an_id_that_we_never_gave_out_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Cursor.parse(text)

    assert caught.value.code == "invalid_event_id"


def test_a_stream_ends_at_once_when_the_server_is_about_to_stop() -> None:
    closing = Closing()

    async def never(_stream: str, _block_ms: int) -> Entries:
        asyncio.get_running_loop().call_soon(closing.begin)
        await asyncio.Event().wait()
        raise AssertionError

    async def run() -> list[str]:
        source = Source([[event(1)]], [])
        feed = Feed(
            "bld_1",
            Cursor(),
            rows_after=source.rows_after,
            entries_after=never,
            keep_alive_s=3600.0,
            closing=closing,
        )
        return [frame async for frame in feed.frames(None, over=False)]

    frames = asyncio.run(run())

    assert len(frames) == 2  # the pause before a retry, and the one event
