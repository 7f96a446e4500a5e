"""A download that breaks goes on where it broke; what came before is never trusted for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginefarm.digest import digest_of
from enginefarm.errors import Unavailable
from enginefarm.install import BlobCache
from tests.unit.client.support.pulling import BIG, Fetch, blob_path
from tests.unit.client.support.release import Release, SigningKey
from tests.unit.client.support.server import LoopbackFarm


def test_a_connection_that_is_cut_is_resumed_where_it_broke(
    fetch: Fetch, loopback: LoopbackFarm, key: SigningKey
) -> None:
    release = Release.of(key, BIG)
    digest = loopback.serve(release)
    loopback.cuts = [1 << 20, 1_000_000, 1_000_000]

    assert fetch(digest).engine.read_bytes() == BIG["model.onnx"]
    ranges = [
        seen.headers.get("Range")
        for seen in loopback.seen
        if blob_path(BIG["model.onnx"]) == seen.path
    ]
    assert ranges[0] is None
    assert len(ranges) == 3
    assert all(text is not None and text.startswith("bytes=") for text in ranges[1:])
    conditions = {seen.headers.get("If-Match") for seen in loopback.seen if "Range" in seen.headers}
    assert conditions == {f'"{digest_of(BIG["model.onnx"])}"'}


def test_a_server_that_ignores_ranges_is_read_from_the_start(
    fetch: Fetch, loopback: LoopbackFarm, key: SigningKey
) -> None:
    digest = loopback.serve(Release.of(key, BIG))
    loopback.ignores_ranges = True
    loopback.cuts = [1 << 20, 1_000_000]

    assert fetch(digest).engine.read_bytes() == BIG["model.onnx"]


def test_what_came_before_the_farm_went_away_is_kept_for_the_next_pull(
    fetch: Fetch, loopback: LoopbackFarm, cache: BlobCache, key: SigningKey, tmp_path: Path
) -> None:
    release = Release.of(key, BIG)
    digest = loopback.serve(release)
    loopback.cuts = [len(release.config), 1_000_000, *[0] * 6]

    with pytest.raises(Unavailable):
        fetch(digest)
    assert not (tmp_path / "engine").exists()
    part = cache.path(digest_of(BIG["model.onnx"])).with_suffix(".part")
    assert part.stat().st_size == 1_000_000

    assert fetch(digest).engine.read_bytes() == BIG["model.onnx"]
    assert loopback.seen[-2].headers["Range"] == "bytes=1000000-"


def test_a_poisoned_beginning_is_fetched_again_from_zero(
    fetch: Fetch, loopback: LoopbackFarm, cache: BlobCache, key: SigningKey
) -> None:
    release = Release.of(key, BIG)
    part = cache.path(digest_of(BIG["model.onnx"])).with_suffix(".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"poison")

    assert fetch(loopback.serve(release)).engine.read_bytes() == BIG["model.onnx"]


def test_a_part_that_is_longer_than_the_file_is_fetched_again_from_zero(
    fetch: Fetch, loopback: LoopbackFarm, cache: BlobCache, release: Release
) -> None:
    part = cache.path(digest_of(release.files["model.onnx"])).with_suffix(".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 1_000_000)

    assert fetch(loopback.serve(release)).engine.read_bytes() == release.files["model.onnx"]


def test_a_link_in_the_place_of_a_part_is_not_written_through(
    fetch: Fetch, loopback: LoopbackFarm, cache: BlobCache, release: Release, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    part = cache.path(digest_of(release.files["model.onnx"])).with_suffix(".part")
    part.parent.mkdir(parents=True)
    part.symlink_to(victim)

    with pytest.raises(OSError, match="symbolic links"):
        fetch(loopback.serve(release))
    assert victim.read_bytes() == b"precious"


def test_a_redirect_to_a_bucket_is_followed_without_the_key(
    fetch: Fetch, loopback: LoopbackFarm, key: SigningKey
) -> None:
    release = Release.of(key, BIG)
    with LoopbackFarm() as bucket:
        bucket.serve(release)
        bucket.cuts = [1 << 20, 1_000_000]
        loopback.elsewhere = bucket.url

        assert fetch(loopback.serve(release)).engine.read_bytes() == BIG["model.onnx"]

        assert all("Authorization" in seen.headers for seen in loopback.seen)
        assert bucket.seen
        assert not any("Authorization" in seen.headers for seen in bucket.seen)
        assert not any("If-Match" in seen.headers for seen in bucket.seen)
