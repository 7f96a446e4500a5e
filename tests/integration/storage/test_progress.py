from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from enginefarm.errors import Unavailable
from storage.ids import new_id
from storage.progress import ProgressStreams

NOWHERE = "redis://127.0.0.1:1/0"


@pytest.fixture
def streams(valkey_url: str) -> Iterator[ProgressStreams]:
    made = ProgressStreams(valkey_url)
    yield made
    made.close()


def read(
    streams: ProgressStreams, build_id: str, after: str = "0"
) -> list[tuple[str, dict[str, object]]]:
    async def once() -> list[tuple[str, dict[str, object]]]:
        try:
            return await streams.read(build_id, after, block_ms=50)
        finally:
            await streams.aclose()

    return asyncio.run(once())


def test_a_watcher_reads_what_was_published_in_order(streams: ProgressStreams) -> None:
    build_id, job_id = new_id("bld"), new_id("job")
    for fraction in (0.1, 0.2):
        streams.publish(build_id, job_id, {"fraction": fraction})
    streams.wake(build_id)
    entries = [data for _, data in read(streams, build_id)]
    assert entries == [
        {"job": job_id, "data": {"fraction": 0.1}},
        {"job": job_id, "data": {"fraction": 0.2}},
        {},
    ]


def test_a_watcher_goes_on_where_it_stopped(streams: ProgressStreams) -> None:
    build_id = new_id("bld")
    streams.publish(build_id, "job_a", {"fraction": 0.1})
    ((seen, _),) = read(streams, build_id)
    again = ProgressStreams(streams._url)
    again.publish(build_id, "job_a", {"fraction": 0.2})
    ((_, data),) = read(again, build_id, seen)
    again.close()
    assert data == {"job": "job_a", "data": {"fraction": 0.2}}


def test_a_watcher_of_one_build_hears_nothing_of_another(streams: ProgressStreams) -> None:
    streams.publish(new_id("bld"), "job_a", {"fraction": 0.1})
    assert read(streams, new_id("bld")) == []


def test_the_latest_progress_of_each_job_is_known(streams: ProgressStreams) -> None:
    build_id, first, second, third = new_id("bld"), new_id("job"), new_id("job"), new_id("job")
    streams.publish(build_id, first, {"fraction": 0.1})
    streams.publish(build_id, first, {"fraction": 0.9})
    streams.publish(build_id, second, {"fraction": 0.5})
    assert streams.latest([first, second, third]) == {
        first: {"fraction": 0.9},
        second: {"fraction": 0.5},
    }
    assert streams.latest([]) == {}


def test_a_stream_is_capped_and_expires(streams: ProgressStreams) -> None:
    build_id, job_id = new_id("bld"), new_id("job")
    for number in range(1500):
        streams.publish(build_id, job_id, {"number": number})
    name = f"progress:{build_id}"
    assert 1000 <= int(str(streams._sync.xlen(name))) < 1200
    assert 0 < int(str(streams._sync.ttl(name))) <= 24 * 3600
    assert 0 < int(str(streams._sync.ttl(f"progress:job:{job_id}"))) <= 24 * 3600


def test_a_job_goes_on_while_valkey_is_away() -> None:
    streams = ProgressStreams(NOWHERE)
    streams.publish("bld_a", "job_a", {"fraction": 0.1})
    streams.wake("bld_a")
    assert streams.latest(["job_a"]) == {}


def test_a_watcher_is_told_that_valkey_is_away() -> None:
    streams = ProgressStreams(NOWHERE)
    with pytest.raises(Unavailable) as refused:
        read(streams, "bld_a")
    assert refused.value.code == "valkey_away"
    with pytest.raises(Unavailable):
        streams.ping()
