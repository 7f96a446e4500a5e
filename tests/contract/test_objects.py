"""What an object store keeps and gives back, held against the real SeaweedFS."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from enginefarm.digest import base64_sha256, digest_of
from enginefarm.errors import InvalidRequest, JobFailed, Unavailable
from enginefarm.state import Blame
from storage.objects import ObjectInfo, S3Objects
from tests.contract.stores import MIB, RAW, fresh, overwrite

pytestmark = pytest.mark.services


@pytest.mark.parametrize("size", [0, 1, MIB, 3 * MIB + 1])
def test_bytes_come_back_as_they_were_put(objects: S3Objects, size: int) -> None:
    data, digest = fresh(size)

    objects.put_bytes(digest, data, RAW)

    assert objects.read(digest, size) == data
    assert b"".join(objects.stream(digest)) == data
    assert objects.head(digest) == ObjectInfo(size=size, checksum_ok=True)
    objects.confirm(digest, size)


def test_a_file_comes_back_as_it_was_put(objects: S3Objects, tmp_path: Path) -> None:
    data, digest = fresh(2 * MIB + 7)
    (tmp_path / "model.onnx").write_bytes(data)

    objects.put_file(digest, tmp_path / "model.onnx", RAW)

    assert objects.read(digest, len(data)) == data


def test_a_repeat_changes_nothing(objects: S3Objects, tmp_path: Path) -> None:
    data, digest = fresh()
    (tmp_path / "again").write_bytes(data)

    objects.put_bytes(digest, data, RAW)
    objects.put_bytes(digest, data, "text/plain")
    objects.put_file(digest, tmp_path / "again", "text/plain")

    answer = httpx.get(objects.presign_get(digest))
    assert (answer.content, answer.headers["content-type"]) == (data, RAW)


def test_many_writers_of_the_same_bytes_all_succeed(objects: S3Objects) -> None:
    data, digest = fresh(MIB)

    with ThreadPoolExecutor(8) as pool:
        for written in [pool.submit(objects.put_bytes, digest, data, RAW) for _ in range(16)]:
            written.result()

    assert httpx.get(objects.presign_get(digest)).content == data


def test_bytes_under_another_digest_are_never_sent(objects: S3Objects, tmp_path: Path) -> None:
    data, digest = fresh()
    (tmp_path / "other").write_bytes(b"other")

    with pytest.raises(JobFailed) as of_bytes:
        objects.put_bytes(digest, data + b"!", RAW)
    with pytest.raises(JobFailed) as of_file:
        objects.put_file(digest, tmp_path / "other", RAW)

    assert (of_bytes.value.code, of_file.value.code) == ("blob_corrupt", "blob_corrupt")
    assert objects.head(digest) is None


def test_the_store_itself_refuses_bytes_that_change_on_the_way(objects: S3Objects) -> None:
    data, digest = fresh()

    with pytest.raises(Unavailable, match="BadDigest"):
        objects._put(digest, data[::-1], RAW)

    assert objects.head(digest) is None


@pytest.mark.parametrize("text", ["sha256:../../etc", "md5:00", "", "sha256:" + "A" * 64])
def test_what_is_no_digest_reaches_no_key(objects: S3Objects, text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        objects.head(text)

    assert caught.value.code == "invalid_digest"


# -- reading


@pytest.mark.parametrize(
    ("start", "end"), [(0, 0), (0, 99), (100, 1_500_000), (3 * MIB, None), (3 * MIB, 99 * MIB)]
)
def test_a_range_has_an_inclusive_end(objects: S3Objects, start: int, end: int | None) -> None:
    data, digest = fresh(3 * MIB + 5)
    objects.put_bytes(digest, data, RAW)

    assert (
        b"".join(objects.stream(digest, start, end))
        == data[start : None if end is None else end + 1]
    )


def test_a_range_beyond_the_end_is_the_callers_mistake(objects: S3Objects) -> None:
    data, digest = fresh()
    objects.put_bytes(digest, data, RAW)

    with pytest.raises(InvalidRequest) as caught:
        b"".join(objects.stream(digest, len(data)))

    assert caught.value.code == "range_not_satisfiable"


def test_a_reader_that_stops_early_gives_its_connection_back(objects: S3Objects) -> None:
    data, digest = fresh(3 * MIB)
    objects.put_bytes(digest, data, RAW)
    bodies: list[Any] = []
    objects._client.meta.events.register(
        "after-call.s3.GetObject", lambda parsed, **_: bodies.append(parsed["Body"]), "spy"
    )

    chunks = objects.stream(digest)
    next(chunks)
    chunks.close()  # type: ignore[attr-defined]  # a generator
    objects._client.meta.events.unregister("after-call.s3.GetObject", unique_id="spy")

    assert [body._raw_stream.closed for body in bodies] == [True]


def test_an_object_above_the_limit_is_not_read(objects: S3Objects) -> None:
    data, digest = fresh()
    objects.put_bytes(digest, data, RAW)

    with pytest.raises(JobFailed) as caught:
        objects.read(digest, len(data) - 1)

    assert caught.value.code == "blob_size"


@pytest.mark.parametrize(
    "ask",
    [
        lambda store, digest: store.confirm(digest, 1),
        lambda store, digest: store.read(digest, 1),
        lambda store, digest: next(store.stream(digest)),
    ],
    ids=["confirm", "read", "stream"],
)
def test_an_absent_object_is_a_nodes_fault(
    objects: S3Objects, ask: Callable[[S3Objects, str], object]
) -> None:
    _, digest = fresh()

    assert objects.head(digest) is None
    with pytest.raises(JobFailed) as caught:
        ask(objects, digest)

    assert (caught.value.code, caught.value.blame) == ("blob_missing", Blame.NODE)


# -- confirming


def test_a_wrong_size_is_found(objects: S3Objects) -> None:
    data, digest = fresh()
    objects.put_bytes(digest, data, RAW)

    with pytest.raises(JobFailed) as caught:
        objects.confirm(digest, len(data) + 1)

    assert caught.value.code == "blob_size"


@pytest.mark.parametrize("with_its_own_checksum", [False, True])
def test_a_tampered_object_is_found_and_never_read(
    objects: S3Objects, *, with_its_own_checksum: bool
) -> None:
    data, digest = fresh()
    evil = data[:-1] + bytes([data[-1] ^ 1])
    objects.put_bytes(digest, data, RAW)
    pins = {"ChecksumSHA256": base64_sha256(digest_of(evil))} if with_its_own_checksum else {}
    overwrite(objects, digest, evil, **pins)

    with pytest.raises(JobFailed) as confirmed:
        objects.confirm(digest, len(data))
    with pytest.raises(JobFailed) as read:
        objects.read(digest, len(data))

    assert (confirmed.value.code, read.value.code) == ("blob_corrupt", "blob_corrupt")


def test_what_is_kept_is_listed_in_order_with_when_it_was_stored(objects: S3Objects) -> None:
    kept = []
    for _ in range(3):
        data, digest = fresh()
        objects.put_bytes(digest, data, RAW)
        kept.append(digest)
    listed = objects.listing()
    names = [digest for digest, _ in listed]

    assert names == sorted(names)
    assert set(kept) <= set(names)
    assert [digest for digest, _ in objects.listing(names[0])] == names[1:]
    assert all(stored.tzinfo is not None for _, stored in listed)
    assert objects.listing(names[-1]) == []


def test_what_was_removed_is_gone_and_may_be_removed_again(objects: S3Objects) -> None:
    data, digest = fresh()
    objects.put_bytes(digest, data, RAW)
    for _ in range(2):
        objects.remove(digest)

    assert objects.head(digest) is None
