"""A manifest comes byte for byte, with its attestations and a summary beside it."""

from __future__ import annotations

import json

from enginefarm.digest import digest_of, repr_digest
from enginefarm.manifest import MANIFEST_TYPE, read_manifest
from enginefarm.state import Scope
from enginefarm.views import ArtifactView
from tests.integration.api.made import artifact
from tests.integration.api.served import Served


def test_the_manifest_has_the_digest_that_was_asked_for(api: Served) -> None:
    made = artifact(api.farm, api.tenant())

    with api.client(Scope.DEPLOY) as client:
        answer = client.get(f"/v1/artifacts/{made.digest}")
        again = client.get(
            f"/v1/artifacts/{made.digest}", headers={"If-None-Match": answer.headers["etag"]}
        )

    assert digest_of(answer.content) == made.digest
    assert read_manifest(answer.content).file("model.onnx") is not None
    assert answer.headers["content-type"] == MANIFEST_TYPE
    assert answer.headers["etag"] == f'"{made.digest}"'
    assert answer.headers["repr-digest"] == repr_digest(made.digest)
    assert answer.headers["docker-content-digest"] == made.digest
    assert (again.status_code, again.content) == (304, b"")


def test_attestations_come_one_to_a_line(api: Served) -> None:
    made = artifact(api.farm, api.tenant())
    path = f"/v1/artifacts/{made.digest}/attestations"

    with api.client(Scope.DEPLOY) as client:
        answer = client.get(path)
        other = client.get(path, params={"predicate_type": "https://example.com/other"})

    lines = answer.text.splitlines()
    assert [json.loads(line)["mediaType"] for line in lines] == [
        "application/vnd.dev.sigstore.bundle.v0.3+json"
    ]
    assert answer.headers["content-type"] == "application/jsonl"
    assert other.text == ""


def test_the_summary_names_every_file(api: Served) -> None:
    made = artifact(api.farm, api.tenant())

    with api.client(Scope.READ) as client:
        view = ArtifactView.model_validate(
            client.get(f"/v1/artifacts/{made.digest}/summary").json()
        )

    assert view.build == made.build_id
    assert [file.name for file in view.files] == ["model.onnx", "config.json"]


def test_an_unknown_or_foreign_artifact_is_not_found(api: Served) -> None:
    made = artifact(api.farm, api.tenant())

    with api.client(Scope.ADMIN, tenant="other") as client:
        for digest in (made.digest, digest_of(b"nothing")):
            for rest in ("", "/summary", "/attestations"):
                answer = client.get(f"/v1/artifacts/{digest}{rest}")
                assert (answer.status_code, answer.json()["code"]) == (404, "unknown_artifact")


def test_the_public_keys_are_open_and_soon_asked_for_again(api: Served) -> None:
    with api.with_text(None) as client:
        answer = client.get("/v1/trust")
        again = client.get("/v1/trust", headers={"If-None-Match": answer.headers["etag"]})

    keys = answer.json()["keys"]
    assert [key["builders"] for key in keys] == [["https://farm.test/control"]]
    assert keys[0]["public_key"].startswith("-----BEGIN PUBLIC KEY-----")
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert again.status_code == 304
