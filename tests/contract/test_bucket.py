"""What a bucket must be before the farm uses it, and what its absence is called."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from enginefarm.digest import digest_of
from enginefarm.errors import FarmError, Unavailable
from enginefarm.state import Blame
from storage.objects import S3Objects
from tests.contract.lax_store import lax_store
from tests.contract.stores import RAW, fresh, store_at

pytestmark = [pytest.mark.services, pytest.mark.usefixtures("objects")]


def test_no_checksum_goes_either_way_but_the_one_that_was_asked_for(s3: dict[str, str]) -> None:
    store = store_at(s3)
    sent: list[tuple[str, dict[str, str]]] = []

    def note(request: Any, **_: object) -> None:  # noqa: ANN401 - botocore's own class
        headers = {name.lower(): str(value) for name, value in request.headers.items()}
        sent.append((request.method, headers))

    store._client.meta.events.register("before-send.s3.*", note)
    data, digest = fresh()
    store.put_bytes(digest, data, RAW)
    store.read(digest, len(data))
    store.probe()
    # An operation for which nobody asks for a checksum.
    store._client.put_object(Bucket=s3["s3_bucket"], Key="plain", Body=data)

    asked = {(how, name) for how, headers in sent for name in headers if "checksum" in name}
    assert asked == {("PUT", "x-amz-checksum-sha256"), ("HEAD", "x-amz-checksum-mode")}
    assert not any("x-amz-trailer" in headers for _, headers in sent)


def test_a_probe_leaves_nothing_behind(s3: dict[str, str]) -> None:
    store = store_at(s3)

    store.probe()
    store.ping()

    listed = store._client.list_objects_v2(Bucket=s3["s3_bucket"], Prefix="probe/")
    assert listed["KeyCount"] == 0


@pytest.mark.parametrize(
    ("honours", "why"),
    [
        (set(), "the sha256 they were sent with"),
        ({"if-none-match"}, "the sha256 they were sent with"),
        ({"checksum"}, "although If-None-Match forbids it"),
        ({"checksum", "if-none-match"}, "the range of an object"),
    ],
)
def test_a_store_that_ignores_what_the_farm_stands_on_is_refused_at_the_start(
    s3: dict[str, str], honours: set[str], why: str
) -> None:
    with lax_store(honours) as (endpoint, kept):
        with pytest.raises(Unavailable, match=why) as caught:
            store_at(s3, s3_endpoint=endpoint).probe()

        assert (caught.value.code, kept) == ("bucket_unfit", {})


def test_a_bucket_is_made_once(s3: dict[str, str]) -> None:
    store = store_at(s3, s3_bucket=f"made-{secrets.token_hex(4)}", s3_region="eu-central-1")

    with pytest.raises(Unavailable):
        store.ping()
    with ThreadPoolExecutor(4) as pool:
        for made in [pool.submit(store.ensure_bucket) for _ in range(4)]:
            made.result()

    store.ensure_bucket()
    store.ping()
    store.probe()


CALLS: dict[str, Callable[[S3Objects, str], object]] = {
    "head": lambda store, digest: store.head(digest),
    "confirm": lambda store, digest: store.confirm(digest, 1),
    "read": lambda store, digest: store.read(digest, 1),
    "stream": lambda store, digest: next(store.stream(digest)),
    "put": lambda store, _: store.put_bytes(digest_of(b"bytes"), b"bytes", RAW),
    "ping": lambda store, _: store.ping(),
    "probe": lambda store, _: store.probe(),
    "ensure_bucket": lambda store, _: store.ensure_bucket(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_store_that_is_away_is_nobodys_fault(
    s3: dict[str, str], call: Callable[[S3Objects, str], object]
) -> None:
    store = store_at(s3, s3_endpoint="http://127.0.0.1:1")
    _, digest = fresh()

    with pytest.raises(FarmError) as caught:
        call(store, digest)

    assert (caught.value.code, caught.value.blame) == ("bucket_away", Blame.FARM)


@pytest.mark.parametrize("name", ["head", "confirm", "read", "stream", "ping"])
def test_a_missing_bucket_is_not_taken_for_a_missing_blob(s3: dict[str, str], name: str) -> None:
    store = store_at(s3, s3_bucket=f"absent-{secrets.token_hex(4)}")
    _, digest = fresh()

    with pytest.raises(Unavailable) as caught:
        CALLS[name](store, digest)

    assert caught.value.code == "bucket_away"


def test_a_wrong_secret_is_told_from_an_absent_blob(s3: dict[str, str]) -> None:
    store = store_at(s3, s3_secret_key="wrong")
    _, digest = fresh()

    with pytest.raises(Unavailable) as caught:
        store.head(digest)

    assert caught.value.code == "bucket_away"
