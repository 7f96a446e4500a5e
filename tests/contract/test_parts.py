"""What a store of parts keeps, joins, gives back and forgets, held against the real SeaweedFS."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from enginefarm.digest import digest_of, hex_of
from enginefarm.errors import Conflict, FarmError
from storage import parts as parts_module
from storage.database import now
from storage.objects import ObjectInfo, S3Objects
from storage.parts import Parts
from tests.contract.stores import MIB, RAW, fresh, overwrite, store_at

pytestmark = pytest.mark.services
# The least that S3 takes as a part that is not the last.
LEAST = 5 * MIB


@pytest.fixture
def parts(objects: S3Objects) -> Parts:
    return objects.parts


@pytest.fixture
def place() -> str:
    return f"uploads/upl_{secrets.token_hex(8)}/0"


def pieces(data: bytes) -> dict[int, bytes]:
    return {n + 1: data[n * LEAST : (n + 1) * LEAST] for n in range(-(-len(data) // LEAST))}


def send(parts: Parts, place: str, transfer: str, number: int, data: bytes) -> httpx.Response:
    digest = digest_of(data)
    url, headers = parts.presign(place, transfer, number, digest, len(data), seconds=600)
    return httpx.put(url, headers=headers, content=data, timeout=60)


def digests(data: bytes) -> dict[int, str]:
    return {number: digest_of(piece) for number, piece in pieces(data).items()}


def sent(parts: Parts, place: str, data: bytes) -> str:
    """Send all of an object, the last part first; return the transfer."""
    transfer = parts.begin(place, RAW)
    for number, piece in reversed(pieces(data).items()):
        assert send(parts, place, transfer, number, piece).status_code == 200
    return transfer


@pytest.mark.parametrize("size", [1, LEAST, LEAST + 1, 2 * LEAST + 77])
def test_what_came_in_parts_is_one_object_under_its_digest(
    objects: S3Objects, parts: Parts, place: str, size: int
) -> None:
    data, digest = fresh(size)

    whole = parts.join(place, sent(parts, place, data), digests(data))
    again = b"".join(parts.stream(whole))
    parts.promote(whole, digest, RAW)

    assert again == data
    assert whole.size == size
    objects.confirm(digest, size)
    assert objects.head(digest) == ObjectInfo(size=size, checksum_ok=None)
    answer = httpx.get(objects.presign_get(digest))
    assert (answer.content, answer.headers["content-type"]) == (data, RAW)
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"


def test_a_large_object_is_copied_in_pieces(
    objects: S3Objects, parts: Parts, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, digest = fresh(2 * LEAST + 77)
    monkeypatch.setattr(parts_module, "_COPIED", LEAST + 11)

    parts.promote(parts.join(place, sent(parts, place, data), digests(data)), digest, RAW)

    assert objects.head(digest) == ObjectInfo(size=len(data), checksum_ok=None)
    assert httpx.get(objects.presign_get(digest)).content == data


def test_a_part_takes_exactly_its_bytes(parts: Parts, place: str) -> None:
    data, digest = fresh()
    transfer = parts.begin(place, RAW)
    url, headers = parts.presign(place, transfer, 1, digest, len(data), seconds=600)
    longer = headers | {"content-length": str(len(data) + 1)}
    bare = {"content-length": headers["content-length"]}

    assert httpx.put(url, headers=headers, content=data[::-1]).status_code == 400
    assert httpx.put(url, headers=longer, content=data + b"!").status_code == 403
    assert httpx.put(url, headers=bare, content=data).status_code == 403
    elsewhere = url.replace("partNumber=1", "partNumber=2")
    assert httpx.put(elsewhere, headers=headers, content=data).status_code == 403
    assert parts.listing(place, transfer) == {}
    assert httpx.put(url, headers=headers, content=data).status_code == 200
    assert {n: part.size for n, part in parts.listing(place, transfer).items()} == {1: len(data)}


def test_a_part_that_is_sent_again_counts_once(parts: Parts, place: str) -> None:
    """A client that resumes may repeat what had arrived."""
    data, _ = fresh(LEAST + 9)
    transfer = sent(parts, place, data)
    for number, piece in pieces(data).items():
        assert send(parts, place, transfer, number, piece).status_code == 200

    listed = parts.listing(place, transfer)
    whole = parts.join(place, transfer, digests(data))

    assert {n: part.size for n, part in listed.items()} == {1: LEAST, 2: 9}
    assert b"".join(parts.stream(whole)) == data


def test_a_part_goes_through_the_farm_as_well(parts: Parts, place: str, tmp_path: Path) -> None:
    data, digest = fresh()
    (tmp_path / "part").write_bytes(data)
    transfer = parts.begin(place, RAW)

    parts.put(place, transfer, 1, digest, tmp_path / "part")
    parts.put(place, transfer, 1, digest, tmp_path / "part")

    assert b"".join(parts.stream(parts.join(place, transfer, {1: digest}))) == data


def test_a_file_that_changed_is_not_taken_as_a_part(
    parts: Parts, place: str, tmp_path: Path
) -> None:
    data, digest = fresh()
    (tmp_path / "part").write_bytes(data[::-1])
    transfer = parts.begin(place, RAW)

    with pytest.raises(FarmError, match="BadDigest"):
        parts.put(place, transfer, 1, digest, tmp_path / "part")

    assert parts.listing(place, transfer) == {}


def test_joining_may_be_repeated_after_a_crash(parts: Parts, place: str) -> None:
    data, _ = fresh(100)
    transfer = sent(parts, place, data)

    first = parts.join(place, transfer, digests(data))

    assert parts.join(place, transfer, digests(data)) == first


def test_nothing_is_joined_while_a_part_is_missing(parts: Parts, place: str) -> None:
    data, _ = fresh(LEAST + 9)
    transfer = parts.begin(place, RAW)
    send(parts, place, transfer, 2, pieces(data)[2])

    with pytest.raises(Conflict) as caught:
        parts.join(place, transfer, digests(data))

    assert caught.value.code == "upload_lost"


def test_no_part_arrives_once_the_object_is_joined(parts: Parts, place: str) -> None:
    data, _ = fresh(100)
    transfer = sent(parts, place, data)
    whole = parts.join(place, transfer, digests(data))

    assert send(parts, place, transfer, 1, data[::-1]).status_code == 404
    assert b"".join(parts.stream(whole)) == data


def test_what_is_there_under_a_digest_is_never_replaced(
    objects: S3Objects, parts: Parts, place: str
) -> None:
    """Two tenants may send the same bytes; who comes second finds them there."""
    data, digest = fresh(100)
    objects.put_bytes(digest, data, RAW)
    evil = data[::-1]

    parts.promote(parts.join(place, sent(parts, place, evil), digests(evil)), digest, "text/evil")

    assert objects.read(digest, 100) == data
    assert httpx.get(objects.presign_get(digest)).headers["content-type"] == RAW


def test_another_object_in_its_place_is_noticed(
    objects: S3Objects, parts: Parts, place: str
) -> None:
    data, digest = fresh(100)
    whole = parts.join(place, sent(parts, place, data), digests(data))
    objects._client.put_object(Bucket=objects._bucket, Key=place, Body=data[::-1])

    with pytest.raises(Conflict) as read:
        b"".join(parts.stream(whole))
    with pytest.raises(Conflict) as copied:
        parts.promote(whole, digest, RAW)

    assert (read.value.code, copied.value.code) == ("upload_lost", "upload_lost")
    assert objects.head(digest) is None


def test_clearing_leaves_nothing_and_touches_nothing_else(
    objects: S3Objects, parts: Parts, place: str
) -> None:
    folder = place.removesuffix("0")
    data, _ = fresh(100)
    half = parts.begin(f"{folder}1", RAW)
    send(parts, f"{folder}1", half, 1, data)
    parts.join(place, sent(parts, place, data), digests(data))
    neighbour = sent(parts, f"{folder[:-1]}x/0", data)
    for _ in range(2):
        parts.clear(folder)

    assert parts.listing(f"{folder}1", half) == {}
    assert send(parts, f"{folder}1", half, 1, data).status_code == 404
    listed = objects._client.list_objects_v2(Bucket=objects._bucket, Prefix=folder)
    assert listed["KeyCount"] == 0
    assert set(parts.listing(f"{folder[:-1]}x/0", neighbour)) == {1}


def test_a_blob_that_came_in_parts_and_was_tampered_with_is_found(
    objects: S3Objects, parts: Parts, place: str
) -> None:
    data, digest = fresh(100)
    parts.promote(parts.join(place, sent(parts, place, data), digests(data)), digest, RAW)
    overwrite(objects, digest, data[::-1])

    with pytest.raises(FarmError) as caught:
        objects.confirm(digest, 100)

    assert caught.value.code == "blob_corrupt"


GONE = "uploads/upl_none/0"
CALLS: dict[str, Callable[[Parts, Path], object]] = {
    "begin": lambda parts, _: parts.begin(GONE, RAW),
    "put": lambda parts, path: parts.put(GONE, "none", 1, digest_of(b""), path),
    "listing": lambda parts, _: parts.listing(GONE, "none"),
    "join": lambda parts, _: parts.join(GONE, "none", {1: digest_of(b"")}),
    "stream": lambda parts, _: next(parts.stream(parts_module.Whole(GONE, 1, "x"))),
    "promote": lambda parts, _: parts.promote(
        parts_module.Whole(GONE, 1, "x"), digest_of(b"1"), RAW
    ),
    "clear": lambda parts, _: parts.clear("uploads/upl_none/"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_store_that_is_away_is_told_as_such(
    s3: dict[str, str], tmp_path: Path, call: Callable[[Parts, Path], object]
) -> None:
    store = store_at(s3, s3_endpoint="http://127.0.0.1:1")
    (tmp_path / "part").write_bytes(b"")

    with pytest.raises(FarmError) as caught:
        call(store.parts, tmp_path / "part")

    assert caught.value.code == "bucket_away"


@pytest.mark.parametrize("name", ["put", "join", "stream", "promote"])
def test_what_is_not_there_is_told_as_lost(objects: S3Objects, tmp_path: Path, name: str) -> None:
    (tmp_path / "part").write_bytes(b"")

    with pytest.raises(Conflict) as caught:
        CALLS[name](objects.parts, tmp_path / "part")

    assert caught.value.code == "upload_lost"


def test_a_copy_that_nobody_lived_to_end_is_given_up(objects: S3Objects, parts: Parts) -> None:
    """Its parts lie beside the blobs, under no name that a listing of objects tells."""
    _, digest = fresh()
    name = hex_of(digest)
    key = f"sha256/{name[:2]}/{name}"
    client, where = objects._client, {"Bucket": objects._bucket, "Key": key}
    begun = client.create_multipart_upload(**where)

    def is_there() -> bool:
        listed = client.list_multipart_uploads(Bucket=where["Bucket"], Prefix=key)
        return begun["UploadId"] in {row["UploadId"] for row in listed.get("Uploads", [])}

    parts.give_up(now() - timedelta(hours=1))
    young = is_there()
    parts.give_up(now() + timedelta(hours=1))

    assert (young, is_there()) == (True, False)
