"""Progress through the real Valkey, and without it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from enginefarm.errors import Unavailable
from storage.progress import ProgressStreams

pytestmark = pytest.mark.services
BLOCK_MS = 30_000


@pytest.fixture
def streams(valkey_url: str) -> Iterator[ProgressStreams]:
    streams = ProgressStreams(valkey_url)
    yield streams
    streams.close()


@pytest.fixture
def away() -> Iterator[ProgressStreams]:
    streams = ProgressStreams("redis://127.0.0.1:1/0")
    yield streams
    streams.close()


@pytest.fixture
def build() -> str:
    """Return a build that no other test has told of."""
    return f"bld_{secrets.token_hex(8)}"


def read(
    streams: ProgressStreams, build: str, after: str = "0", block_ms: int = 1
) -> list[tuple[str, dict[str, Any]]]:
    async def once() -> list[tuple[str, dict[str, Any]]]:
        try:
            return await streams.read(build, after, block_ms)
        finally:
            await streams.aclose()

    return asyncio.run(once())


def test_watchers_read_what_was_published_in_its_order(
    streams: ProgressStreams, build: str
) -> None:
    streams.publish(build, "job_1", {"fraction": 0.25, "phase": "naïve"})
    streams.publish(build, "job_2", {"fraction": 0.5})

    assert [entry for _, entry in read(streams, build)] == [
        {"job": "job_1", "data": {"fraction": 0.25, "phase": "naïve"}},
        {"job": "job_2", "data": {"fraction": 0.5}},
    ]


def test_a_watcher_goes_on_where_it_was(streams: ProgressStreams, build: str) -> None:
    for number in range(3):
        streams.publish(build, "job_1", {"fraction": number})
    (first, _), *_ = read(streams, build)

    rest = read(streams, build, first)

    assert [entry["data"]["fraction"] for _, entry in rest] == [1, 2]
    assert read(streams, build, rest[-1][0]) == []


def test_a_wake_carries_nothing(streams: ProgressStreams, build: str) -> None:
    streams.wake(build)

    assert [entry for _, entry in read(streams, build)] == [{}]


def test_a_build_is_told_of_itself_alone(streams: ProgressStreams, build: str) -> None:
    streams.publish(f"{build}_other", "job_1", {})

    assert read(streams, build) == []


def test_a_waiting_watcher_is_told_at_once(streams: ProgressStreams, build: str) -> None:
    async def watch() -> list[tuple[str, dict[str, Any]]]:
        waiting = asyncio.create_task(streams.read(build, "$", BLOCK_MS))
        with redis.Redis.from_url(streams._url) as client:
            while not waiting.done() and not _someone_waits(client):  # noqa: ASYNC110 - Valkey's news
                await asyncio.sleep(0.01)
            await asyncio.to_thread(streams.wake, build)
        try:
            return await waiting
        finally:
            await streams.aclose()

    assert [entry for _, entry in asyncio.run(watch())] == [{}]


def _someone_waits(client: redis.Redis) -> bool:
    clients: Any = client.client_list()
    return any("b" in row["flags"] for row in clients)


def test_the_latest_of_each_job_is_known(streams: ProgressStreams, build: str) -> None:
    one, two, three = (f"{build}_{number}" for number in range(3))
    streams.publish(build, one, {"fraction": 0.1})
    streams.publish(build, one, {"fraction": 0.9})
    streams.publish(build, two, {"fraction": 0.5})

    assert streams.latest([one, two, three]) == {one: {"fraction": 0.9}, two: {"fraction": 0.5}}
    assert streams.latest([]) == {}


def test_a_stream_is_capped_and_everything_expires(streams: ProgressStreams, build: str) -> None:
    for number in range(1300):
        streams.wake(build) if number % 2 else streams.publish(build, build, {"n": number})

    with redis.Redis.from_url(streams._url) as client:
        length: Any = client.xlen(f"progress:{build}")
        ends: list[Any] = [client.ttl(f"progress:{name}") for name in (build, f"job:{build}")]

    assert 1000 <= length < 1200
    assert all(0 < seconds <= 24 * 3600 for seconds in ends)


def test_without_valkey_a_job_goes_on_and_the_log_says_so(away: ProgressStreams) -> None:
    with capture_logs() as logs:
        away.publish("bld_1", "job_1", {"fraction": 0.5})
        away.wake("bld_1")
        latest = away.latest(["job_1"])

    assert latest == {}
    assert [row["event"] for row in logs] == [
        "progress_not_published",
        "watchers_not_woken",
        "progress_not_read",
    ]


def test_without_valkey_a_watcher_is_told(away: ProgressStreams) -> None:
    with pytest.raises(Unavailable) as watched:
        read(away, "bld_1")

    assert watched.value.code == "valkey_away"


def test_a_ping_tells_whether_valkey_is_there(
    streams: ProgressStreams, away: ProgressStreams
) -> None:
    streams.ping()
    with pytest.raises(Unavailable) as pinged:
        away.ping()

    assert pinged.value.code == "valkey_away"
