"""Comparisons over HTTP: asked for, shown, listed and signed, each for its tenant alone."""

from __future__ import annotations

import httpx

from enginefarm.comparison_proof import verify_comparison
from enginefarm.comparison_views import ComparisonPage, ComparisonView
from enginefarm.state import Scope
from enginefarm.trust_views import TrustView
from tests.integration.api.asked import run_to_the_end, submit, upload
from tests.integration.api.made import onnx_model
from tests.integration.api.node import Node, enrol
from tests.integration.api.served import Served


def built(api: Served, node: Node, client: httpx.Client, salt: int) -> str:
    build = submit(client, model=upload(client, onnx_model(salt=salt))).json()["id"]
    run_to_the_end(api, node)
    digest: str = client.get(f"/v1/builds/{build}").json()["targets"][0]["artifact"]
    return digest


def test_a_comparison_is_asked_for_once_measured_signed_and_nobody_elses(api: Served) -> None:
    node = enrol(api)
    with node.client, api.client(Scope.SUBMIT) as client:
        body = {"first": built(api, node, client, 0), "second": built(api, node, client, 1)}
        headers = {"Idempotency-Key": "k"}
        first = client.post("/v1/comparisons", json=body, headers=headers)
        again = client.post("/v1/comparisons", json=body, headers=headers)
        assert (first.status_code, again.status_code) == (201, 200), first.text
        path = first.headers["location"]
        view = ComparisonView.model_validate(first.json())
        assert (view.report, view.signed, again.json()["id"]) == (None, False, view.id)
        unsigned = client.get(f"{path}/attestation")
        assert (unsigned.status_code, unsigned.json()["code"]) == (404, "attestation_missing")

        run_to_the_end(api, node)
        done = ComparisonView.model_validate(client.get(path).json())
        assert done.report is not None
        assert (done.verdict, done.signed, done.failure) == ("faster", True, None)
        keys = TrustView.model_validate(client.get("/v1/trust").json()).keys
        assert verify_comparison(client.get(f"{path}/attestation").content, keys) == done.report

        page = ComparisonPage.model_validate(client.get("/v1/comparisons").json())
        assert [row.id for row in page.items] == [view.id]
        with_one = client.get("/v1/comparisons", params={"artifact": body["second"]})
        assert [row["id"] for row in with_one.json()["items"]] == [view.id]
        of_none = client.get("/v1/comparisons", params={"artifact": "sha256:" + "0" * 64})
        assert of_none.json()["items"] == []
        assert view.id not in client.get("/v1/builds").text
        assert client.get(f"/v1/builds/{view.id}").json()["kind"] == "comparison"

        cached = ComparisonView.model_validate(client.post("/v1/comparisons", json=body).json())
        assert (cached.cached, cached.report) == (True, done.report)
        with_it = client.get(f"/v1/comparisons/{cached.id}/attestation")
        assert verify_comparison(with_it.content, keys) == done.report

        with api.client(Scope.SUBMIT, tenant="globex") as stranger:
            assert stranger.get(path).json()["code"] == "unknown_build"
            assert stranger.get(f"{path}/attestation").status_code == 404
            assert stranger.post("/v1/comparisons", json=body).json()["code"] == "unknown_artifact"
            assert stranger.get("/v1/comparisons").json()["items"] == []


def test_a_build_is_no_comparison_and_a_comparison_no_build(api: Served) -> None:
    node = enrol(api)
    with node.client, api.client(Scope.SUBMIT) as client:
        build = submit(client).json()
        assert client.get(f"/v1/comparisons/{build['id']}").json()["code"] == "unknown_comparison"
        both = {"first": "sha256:" + "0" * 64, "second": "sha256:" + "1" * 64}
        refused = submit(client, compare=both)
        assert (refused.status_code, refused.json()["code"]) == (400, "comparison_by_build")
        swept = client.post("/v1/comparisons", json=both | {"options": {"batches": [1]}})
        assert swept.status_code == 400
        assert client.get("/v1/comparisons?cursor=x").json()["code"] == "invalid_cursor"
