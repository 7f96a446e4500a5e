"""What a presigned URL opens and what it refuses, held against the real SeaweedFS."""

from __future__ import annotations

import secrets
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from enginefarm.digest import digest_of, hex_of
from storage.objects import S3Objects
from storage.staging import staged_at
from tests.contract.stores import RAW, fresh, store_at

pytestmark = [pytest.mark.services, pytest.mark.usefixtures("objects")]


def put(url: str, headers: dict[str, str], data: bytes) -> int:
    return httpx.put(url, headers=headers, content=data, timeout=30).status_code


# -- presigned reads


def test_a_presigned_read_needs_no_credential_and_names_file_and_type(objects: S3Objects) -> None:
    data, digest = fresh()
    objects.put_bytes(digest, data, RAW)

    answer = httpx.get(objects.presign_get(digest, file_name="model.plan", media_type="text/x-a"))

    assert answer.content == data
    assert answer.headers["content-disposition"] == 'attachment; filename="model.plan"'
    assert answer.headers["content-type"] == "text/x-a"
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"


def test_a_presigned_read_resumes(objects: S3Objects) -> None:
    data, digest = fresh()
    objects.put_bytes(digest, data, RAW)

    answer = httpx.get(objects.presign_get(digest), headers={"Range": "bytes=600-"})

    assert (answer.status_code, answer.content) == (206, data[600:])


def test_a_presigned_read_opens_nothing_else(objects: S3Objects) -> None:
    (data, digest), (other, elsewhere) = fresh(), fresh()
    objects.put_bytes(digest, data, RAW)
    objects.put_bytes(elsewhere, other, RAW)
    name, wanted = hex_of(digest), hex_of(elsewhere)

    url = objects.presign_get(digest).replace(name, wanted).replace(name[:2], wanted[:2], 1)

    assert httpx.get(url).status_code == 403


# -- presigned writes


def asked(store: S3Objects, data: bytes, seconds: int = 3600) -> tuple[str, str, dict[str, str]]:
    """Return a place that only this test has, and the URL and headers that fill it."""
    place = staged_at(f"job_{secrets.token_hex(8)}", 1, digest_of(data))
    presigned = store.staging.presign(place, digest_of(data), len(data), RAW, seconds=seconds)
    return place, *presigned


def test_a_presigned_write_takes_exactly_its_bytes(objects: S3Objects) -> None:
    data, digest = fresh()

    place, url, headers = asked(objects, data)

    assert objects.staging.find(place) is None
    assert put(url, headers, data) == 200
    whole = objects.staging.find(place)
    assert whole is not None
    assert (whole.size, b"".join(objects.parts.stream(whole))) == (len(data), data)
    assert objects.head(digest) is None
    assert place in {found for found, _ in objects.staging.listing(place[:-1])}
    for _ in range(2):
        objects.staging.remove(place)
    assert objects.staging.find(place) is None


def test_a_presigned_write_refuses_other_bytes_of_the_same_length(objects: S3Objects) -> None:
    data, _ = fresh()
    place, url, headers = asked(objects, data)

    assert put(url, headers, data[::-1]) == 400
    assert objects.staging.find(place) is None


def test_a_presigned_write_refuses_another_length(objects: S3Objects) -> None:
    data, _ = fresh()
    place, url, headers = asked(objects, data)

    longer = headers | {"content-length": str(len(data) + 1)}

    assert put(url, longer, data + b"!") == 403
    assert objects.staging.find(place) is None


def test_a_presigned_write_refuses_a_repeat(objects: S3Objects) -> None:
    data, _ = fresh()
    _, url, headers = asked(objects, data)

    assert [put(url, headers, data) for _ in range(2)] == [200, 412]


@pytest.mark.parametrize("name", ["if-none-match", "x-amz-checksum-sha256", "content-length"])
def test_no_pin_of_a_presigned_write_can_be_left_out(objects: S3Objects, name: str) -> None:
    data, _ = fresh()
    place, url, headers = asked(objects, data)
    rest = {key: value for key, value in headers.items() if key != name}
    chunked = iter([data]) if name == "content-length" else data

    answer = httpx.put(url, headers=rest, content=chunked)

    assert answer.status_code == 403
    assert objects.staging.find(place) is None


def test_a_presigned_write_opens_no_other_place(objects: S3Objects) -> None:
    data, digest = fresh()
    _, url, headers = asked(objects, data)
    start, _, rest = url.partition("/attempts/")
    name = hex_of(digest)

    elsewhere = f"{start}/sha256/{name[:2]}/{name}?{rest.partition('?')[2]}"

    assert put(elsewhere, headers, data) == 403
    assert put(url.replace("/1/", "/2/", 1), headers, data) == 403
    assert objects.head(digest) is None


def test_presigned_urls_are_of_version_4_and_name_the_endpoint_that_others_reach(
    s3: dict[str, str],
) -> None:
    store = store_at(s3, s3_public_endpoint="https://files.farm.test")
    data, digest = fresh()

    place, url, _ = asked(store, data, seconds=60)

    told = parse_qs(urlsplit(url).query)
    assert url.startswith(f"https://files.farm.test/{s3['s3_bucket']}/{place}?")
    assert told["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
    assert told["X-Amz-Expires"] == ["60"]
    assert set(told["X-Amz-SignedHeaders"][0].split(";")) == {
        "content-length",
        "content-type",
        "host",
        "if-none-match",
        "x-amz-checksum-sha256",
    }
    assert store.presign_get(digest).startswith("https://files.farm.test/")
    store.put_bytes(digest, data, RAW)  # its own work goes the short way
