"""Who may do what: every path against every scope, and keys that open nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from enginefarm.digest import digest_of
from enginefarm.state import Scope
from storage.models import ApiKey
from tests.integration.api.served import TOKEN, Served

SOME = digest_of(b"something")
ALL = {Scope.SUBMIT, Scope.READ, Scope.DEPLOY, Scope.ADMIN}
WRITE = {Scope.SUBMIT, Scope.ADMIN}
LOOK = {Scope.SUBMIT, Scope.READ, Scope.ADMIN}
FETCH = {Scope.DEPLOY, Scope.READ, Scope.ADMIN}
PATHS = {
    ("POST", "/v1/models"): WRITE,
    ("GET", "/v1/models"): LOOK,
    ("GET", f"/v1/models/{SOME}"): LOOK,
    ("POST", "/v1/datasets"): WRITE,
    ("GET", f"/v1/datasets/{SOME}"): LOOK,
    ("POST", "/v1/builds"): WRITE,
    ("GET", "/v1/builds"): LOOK,
    ("GET", "/v1/builds/bld_none"): LOOK,
    ("POST", "/v1/builds/bld_none/bump"): WRITE,
    ("POST", "/v1/builds/bld_none/cancel"): WRITE,
    ("GET", "/v1/builds/bld_none/events"): LOOK,
    ("POST", "/v1/comparisons"): WRITE,
    ("GET", "/v1/comparisons"): LOOK,
    ("GET", "/v1/comparisons/bld_none"): LOOK,
    ("GET", "/v1/comparisons/bld_none/attestation"): LOOK,
    ("POST", "/v1/searches"): WRITE,
    ("GET", "/v1/searches"): LOOK,
    ("GET", "/v1/searches/srch_none"): LOOK,
    ("POST", "/v1/searches/srch_none/cancel"): WRITE,
    ("GET", "/v1/jobs/job_none/attempts/1/log"): LOOK,
    ("GET", "/v1/targets"): LOOK,
    ("GET", "/v1/plugins"): LOOK,
    ("GET", "/v1/nodes"): LOOK,
    ("GET", "/v1/timing-caches"): LOOK,
    ("GET", f"/v1/timing-caches/{SOME}"): LOOK,
    ("POST", f"/v1/timing-caches/{SOME}/drop"): WRITE,
    ("POST", f"/v1/timing-caches/{SOME}/pin"): WRITE,
    ("GET", f"/v1/artifacts/{SOME}"): FETCH,
    ("GET", f"/v1/artifacts/{SOME}/summary"): FETCH,
    ("GET", f"/v1/artifacts/{SOME}/attestations"): FETCH,
    ("POST", f"/v1/artifacts/{SOME}/revoke"): WRITE,
    ("GET", f"/v1/blobs/{SOME}"): FETCH,
    # Who sends files may ask which of them are here.
    ("HEAD", f"/v1/blobs/{SOME}"): FETCH | {Scope.SUBMIT},
    ("POST", "/v1/uploads"): WRITE,
    ("GET", "/v1/uploads/upl_none"): LOOK,
    ("DELETE", "/v1/uploads/upl_none"): WRITE,
    ("POST", "/v1/uploads/upl_none/complete"): WRITE,
    ("POST", "/v1/uploads/upl_none/parts"): WRITE,
    ("PUT", "/v1/uploads/upl_none/files/0"): WRITE,
}
BODY = {"model": SOME, "targets": ["onnxruntime@cpu"]}


def test_every_path_opens_to_its_scopes_and_to_no_other(api: Served) -> None:
    for scope in sorted(ALL):
        with api.client(scope) as client:
            for (method, path), allowed in PATHS.items():
                json = BODY if path == "/v1/builds" and method == "POST" else None
                answer = client.request(method, path, json=json)

                opened = answer.status_code not in (401, 403)
                assert opened == (scope in allowed), (scope, method, path, answer.text)
                if not opened and method != "HEAD":
                    assert answer.json()["code"] == "scope_missing"
                    assert answer.json()["context"]["needed"]


def test_the_document_and_this_table_have_the_same_paths(api: Served) -> None:
    paths = api.document()["paths"]
    keyed = {
        (method.upper(), path)
        for path, operations in paths.items()
        for method, operation in operations.items()
        if operation.get("security") == [{"AccessKey": []}]
    }

    concrete = {
        ("{digest}", SOME),
        ("{build_id}", "bld_none"),
        ("{comparison_id}", "bld_none"),
        ("{job_id}", "job_none"),
        ("{search_id}", "srch_none"),
        ("{number}", "1"),
        ("{upload_id}", "upl_none"),
        ("{file}", "0"),
    }
    filled = set()
    for method, path in keyed:
        full = path
        for name, value in concrete:
            full = full.replace(name, value)
        filled.add((method, full))
    assert filled == set(PATHS)


@pytest.mark.parametrize("path", [path for method, path in PATHS if method == "GET"])
def test_without_a_key_nothing_opens(api: Served, path: str) -> None:
    with api.with_text(None) as client:
        answer = client.get(path)

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == 'Bearer realm="enginefarm"'


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Basic dXNlcjpwYXNz", "Token abc", "Bearer\tx", "ef_1_2"]
)
def test_another_form_than_bearer_is_no_key(api: Served, header: str) -> None:
    with api.with_text(None) as client:
        answer = client.get("/v1/models", headers={"Authorization": header})

    assert answer.status_code == 401, answer.text
    assert answer.headers["www-authenticate"].startswith("Bearer ")


@pytest.mark.parametrize("text", ["x", "ef__", "ef_a_b", "ef_a_b_c", "en_a_b", "ef_" + "é" * 9])
def test_a_key_we_never_made_is_unknown(api: Served, text: str) -> None:
    with api.with_text(None) as client:
        answer = client.get("/v1/models", headers={b"Authorization": b"Bearer " + text.encode()})

    assert (answer.status_code, answer.json()["code"]) == (401, "key_unknown")
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_the_right_id_with_another_secret_is_unknown(api: Served) -> None:
    text = api.key(Scope.ADMIN)

    with api.with_text(text[:-1] + ("0" if text[-1] != "0" else "1")) as client:
        answer = client.get("/v1/models")

    assert (answer.status_code, answer.json()["code"]) == (401, "key_unknown")


def test_an_expired_key_says_so(api: Served) -> None:
    text = api.key(Scope.ADMIN, expires_at=datetime.now(UTC) - timedelta(seconds=1))

    with api.with_text(text) as client:
        answer = client.get("/v1/models")

    assert (answer.status_code, answer.json()["code"]) == (401, "key_expired")
    assert "key_expired" in answer.headers["www-authenticate"]


def test_a_revoked_key_says_so(api: Served) -> None:
    text = api.key(Scope.ADMIN)
    with api.farm.database.transaction() as session:
        row = session.get(ApiKey, text.split("_")[1])
        assert row is not None
        row.revoked_at = datetime.now(UTC)

    with api.with_text(text) as client:
        answer = client.get("/v1/models")

    assert (answer.status_code, answer.json()["code"]) == (401, "key_revoked")


@pytest.mark.parametrize("path", ["beat", "claims", "jobs/job_1/beat", "jobs/job_1/finish"])
def test_a_persons_key_does_not_open_the_worker_api(api: Served, path: str) -> None:
    with api.client(Scope.ADMIN) as client:
        answer = client.post(f"/worker/v1/{path}", json={})

    assert answer.status_code == 401, answer.text


@pytest.mark.parametrize("text", ["x", TOKEN + "x", TOKEN[:-1], "ef_1_2"])
def test_only_the_enrolment_token_enrols(api: Served, text: str) -> None:
    with api.with_text(None) as client:
        answer = client.post(
            "/worker/v1/enrol", json={}, headers={"Authorization": f"Bearer {text}"}
        )

    assert answer.status_code == 401, answer.text
    assert api.rows("nodes") == {"nodes": 0}


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/v1/trust", "/openapi.json"])
def test_what_is_open_is_open(api: Served, path: str) -> None:
    with api.with_text(None) as client:
        assert client.get(path).status_code == 200
