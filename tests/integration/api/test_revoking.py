"""What was revoked is gone for whoever deploys, with the reason; who may read can look at it."""

from __future__ import annotations

import pytest

from enginefarm.revocation import RevocationView
from enginefarm.state import Scope
from enginefarm.views import ArtifactView
from tests.integration.api.made import Published, artifact
from tests.integration.api.served import Served

WHY = "calibrated on the wrong data"


def revoked(api: Served, made: Published, why: str = WHY) -> RevocationView:
    with api.client(Scope.SUBMIT) as client:
        answer = client.post(f"/v1/artifacts/{made.digest}/revoke", json={"reason": f" {why} "})
    assert answer.status_code == 200, answer.text
    return RevocationView.model_validate(answer.json())


def test_what_was_revoked_is_gone_with_its_reason(api: Served) -> None:
    made = artifact(api.farm, api.tenant(), engine=b"an engine that is taken back")
    path = f"/v1/artifacts/{made.digest}"
    told = revoked(api, made)
    assert (told.digest, told.build, told.reason) == (made.digest, made.build_id, WHY)
    assert revoked(api, made, "another reason") == told

    paths = (path, f"{path}/summary", f"{path}/attestations")
    asked = (*paths, f"/v1/blobs/{made.engine_digest}", f"/v1/blobs/{made.digest}")
    with api.client(Scope.DEPLOY) as deploys:
        answers = [deploys.get(each) for each in asked]
    with api.client(Scope.READ) as reads:
        answers += [reads.get(path), reads.get(f"{path}/attestations")]
        summary = reads.get(f"{path}/summary")
        blob = reads.get(f"/v1/blobs/{made.engine_digest}?proxy=1")
    for answer in answers:
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (410, "artifact_revoked"), answer.url
        assert f"was revoked on {told.revoked_at:%Y-%m-%d}" in problem["detail"]
        assert problem["why"] == f"The reason that was given: {WHY}."
    view = ArtifactView.model_validate(summary.json())
    assert view.revoked == told
    assert view.kept_back == f"revoked on {told.revoked_at:%Y-%m-%d}: {WHY}"
    assert blob.content == made.engine, "who looks for the cause may have the bytes"


def test_a_file_that_another_published_artifact_has_too_is_still_given(api: Served) -> None:
    made = artifact(api.farm, api.tenant(), engine=b"shared")
    artifact(api.farm, api.tenant(), engine=b"shared", config=b'{"other":1}')
    revoked(api, made)
    with api.client(Scope.DEPLOY) as client:
        answer = client.get(f"/v1/blobs/{made.engine_digest}?proxy=1")
    assert answer.content == b"shared"


@pytest.mark.parametrize("reason", [None, "", "  ", "x" * 501, "a\x00b", 3])
def test_nothing_is_revoked_without_a_reason_that_can_be_told(api: Served, reason: object) -> None:
    made = artifact(api.farm, api.tenant(), engine=repr(reason).encode())
    with api.client(Scope.SUBMIT, Scope.DEPLOY) as client:
        answer = client.post(f"/v1/artifacts/{made.digest}/revoke", json={"reason": reason})
        assert answer.status_code == 400
        assert client.get(f"/v1/artifacts/{made.digest}").status_code == 200


def test_another_tenants_artifact_is_not_found(api: Served) -> None:
    made = artifact(api.farm, api.tenant(), engine=b"of this tenant")
    with api.client(Scope.ADMIN, tenant="other") as client:
        answer = client.post(f"/v1/artifacts/{made.digest}/revoke", json={"reason": WHY})
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_artifact")
