"""Blobs by digest: redirect or bytes, ranges and conditions, and who may have them."""

from __future__ import annotations

import httpx
import pytest

from enginefarm.digest import digest_of, repr_digest
from enginefarm.state import ArtifactState, Scope
from tests.integration.api.made import artifact
from tests.integration.api.served import Served

DATA = b"engine bytes, 0123456789"
DIGEST = digest_of(DATA)
ETAG = f'"{DIGEST}"'
PATH = f"/v1/blobs/{DIGEST}"


@pytest.fixture
def deployer(api: Served) -> httpx.Client:
    """A client whose key only deploys, and a published artifact for it."""
    artifact(api.farm, api.tenant(), engine=DATA)
    return api.client(Scope.DEPLOY)


def test_the_redirect_leads_to_the_bytes_and_must_not_be_kept(deployer: httpx.Client) -> None:
    with deployer:
        answer = deployer.get(PATH)

    assert answer.status_code == 307
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["repr-digest"] == repr_digest(DIGEST)
    assert answer.headers["x-size"] == str(len(DATA))
    assert httpx.get(answer.headers["location"]).content == DATA


def test_the_bytes_themselves_may_be_kept_for_ever(deployer: httpx.Client) -> None:
    with deployer:
        answer = deployer.get(f"{PATH}?proxy=1")

    assert answer.status_code == 200
    assert answer.content == DATA
    assert answer.headers["etag"] == ETAG
    assert answer.headers["repr-digest"] == repr_digest(DIGEST)
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["content-length"] == str(len(DATA))
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith("attachment;")


@pytest.mark.parametrize("query", ["", "?proxy=1"])
def test_head_tells_the_size_and_sends_nothing(deployer: httpx.Client, query: str) -> None:
    with deployer:
        answer = deployer.head(PATH + query)

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == str(len(DATA))
    assert answer.headers["etag"] == ETAG


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-5", 0, 6),
        ("bytes=14-", 14, len(DATA)),
        ("bytes=-10", len(DATA) - 10, len(DATA)),
        ("bytes=23-999", 23, 24),
    ],
)
def test_a_range_is_answered_with_its_bytes_and_the_digest_of_the_whole(
    deployer: httpx.Client, asked: str, start: int, end: int
) -> None:
    with deployer:
        answer = deployer.get(f"{PATH}?proxy=1", headers={"Range": asked, "If-Match": ETAG})

    assert answer.status_code == 206
    assert answer.content == DATA[start:end]
    assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/{len(DATA)}"
    assert answer.headers["content-length"] == str(end - start)
    assert answer.headers["repr-digest"] == repr_digest(DIGEST)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"If-Match": '"sha256:other"'}, 412),
        ({"If-None-Match": ETAG}, 304),
        ({"If-None-Match": '"sha256:other"'}, 200),
        ({"Range": "bytes=24-"}, 416),
        ({"Range": "bytes=0-1,4-5"}, 200),
        ({"Range": "bytes=0-1", "If-Range": '"sha256:other"'}, 200),
    ],
    ids=["if-match", "if-none-match", "if-none-match other", "outside", "several", "if-range"],
)
def test_conditions(deployer: httpx.Client, headers: dict[str, str], status: int) -> None:
    with deployer:
        answer = deployer.get(f"{PATH}?proxy=1", headers=headers)

    assert answer.status_code == status
    if status == 416:
        assert answer.headers["content-range"] == f"bytes */{len(DATA)}"
        assert answer.json()["code"] == "range_not_satisfiable"
    if status == 412:
        assert answer.json()["code"] == "precondition_failed"
        assert answer.json()["status"] == 412
    if status == 304:
        assert (answer.content, answer.headers["etag"]) == (b"", ETAG)


@pytest.mark.parametrize("digest", ["sha256:AB", DIGEST.upper(), "md5:" + "0" * 32, DIGEST + "0"])
def test_what_is_no_digest_is_refused(deployer: httpx.Client, digest: str) -> None:
    with deployer:
        answer = deployer.get(f"/v1/blobs/{digest}")

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_digest")


@pytest.mark.parametrize("state", [ArtifactState.QUARANTINED, ArtifactState.REVOKED])
def test_what_is_not_published_is_not_for_a_key_that_only_deploys(
    api: Served, state: ArtifactState
) -> None:
    made = artifact(api.farm, api.tenant(), state=state, engine=f"{state} engine".encode())

    with api.client(Scope.DEPLOY) as deploys, api.client(Scope.READ) as reads:
        blob = deploys.get(f"/v1/blobs/{made.engine_digest}")
        manifest = deploys.get(f"/v1/artifacts/{made.digest}")
        bundles = deploys.get(f"/v1/artifacts/{made.digest}/attestations")
        seen = reads.get(f"/v1/blobs/{made.engine_digest}?proxy=1")
        summary = reads.get(f"/v1/artifacts/{made.digest}/summary")

    quarantined = state is ArtifactState.QUARANTINED
    gone = (410, "artifact_revoked")
    refused = (403, "blob_not_published") if quarantined else gone
    assert (blob.status_code, blob.json()["code"]) == refused
    refused = (403, "artifact_not_published") if quarantined else gone
    assert (manifest.status_code, manifest.json()["code"]) == refused
    assert bundles.status_code == refused[0]
    assert seen.content == made.engine
    assert summary.json()["state"] == state


def test_another_tenant_does_not_learn_that_a_blob_is_there(api: Served) -> None:
    artifact(api.farm, api.tenant(), engine=DATA)

    with api.client(Scope.ADMIN, tenant="other") as client:
        answer = client.get(PATH)

    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_blob")
