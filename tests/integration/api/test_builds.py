"""Builds over HTTP: asked for, planned, listed, cancelled, and carried through to an artifact."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from enginefarm.digest import digest_of
from enginefarm.state import BuildState, JobState, Scope, Stage
from enginefarm.views import ArtifactView, BuildPage, BuildView, PlanView
from tasks.publish import publish_due
from tasks.settle import settle_due
from tests.integration.api.made import npz, onnx_model
from tests.integration.api.node import ENGINE, VERSION, Node, enrol
from tests.integration.api.served import Served

OCTETS = {"Content-Type": "application/octet-stream"}
TARGET = "onnxruntime@cpu"


def upload(client: httpx.Client, data: bytes | None = None) -> str:
    answer = client.post("/v1/models", content=data or onnx_model(), headers=OCTETS)
    assert answer.status_code in (200, 201), answer.text
    digest: str = answer.json()["digest"]
    return digest


def submit(client: httpx.Client, **changes: Any) -> httpx.Response:  # noqa: ANN401 - JSON
    model = changes.pop("model", None) or upload(client)
    headers = changes.pop("headers", {})
    body = {"model": model, "targets": [TARGET]} | changes
    return client.post("/v1/builds", json=body, headers=headers)


def run_to_the_end(api: Served, node: Node) -> None:
    """Let the node and the control plane work until nothing is left to do."""
    signer = api.farm.signer
    assert signer is not None
    for _ in range(20):
        job_id = node.next_job()
        if job_id is not None:
            node.work(job_id)
        if not settle_due(api.farm) and not publish_due(api.farm, signer) and job_id is None:
            return
    pytest.fail("the build did not come to an end")


def test_a_build_goes_from_a_persons_request_to_a_deployers_bytes(api: Served) -> None:
    node = enrol(api)
    with node.client, api.client(Scope.SUBMIT) as client:
        asked = submit(client, labels={"team": "vision"}, gates=[])
        assert asked.status_code == 201, asked.text
        begun = BuildView.model_validate(asked.json())
        assert asked.headers["location"] == f"/v1/builds/{begun.id}"
        run_to_the_end(api, node)
        view = BuildView.model_validate(client.get(asked.headers["location"]).json())

    assert view.state is BuildState.SUCCEEDED, view
    assert [(job.stage, job.state) for job in view.jobs] == [
        (stage, JobState.SUCCEEDED) for stage in Stage
    ]
    compiled = view.jobs[1]
    assert [file.digest for file in compiled.outputs] == [digest_of(ENGINE)]
    assert [(each.number, each.node) for each in compiled.attempts] == [(1, "node-1")]
    target = view.targets[0]
    assert target.artifact is not None
    assert target.cached is False
    with api.client(Scope.DEPLOY) as deployer:
        manifest = deployer.get(f"/v1/artifacts/{target.artifact}")
        summary = ArtifactView.model_validate(
            deployer.get(f"/v1/artifacts/{target.artifact}/summary").json()
        )
        bundles = deployer.get(f"/v1/artifacts/{target.artifact}/attestations")
        engine = next(file for file in summary.files if file.name == "model.onnx")
        fetched = deployer.get(f"/v1/blobs/{engine.digest}", follow_redirects=True)
        model = deployer.get(f"/v1/blobs/{digest_of(onnx_model())}")
    assert digest_of(manifest.content) == target.artifact
    assert summary.report is not None
    assert len(bundles.text.splitlines()) == 1
    assert fetched.content == ENGINE
    assert model.status_code == 403, "the model is not a file of the artifact"


def test_the_second_build_of_the_same_recipe_is_answered_from_the_cache(api: Served) -> None:
    node = enrol(api)
    with node.client, api.client(Scope.SUBMIT) as client:
        first = submit(client).json()
        run_to_the_end(api, node)
        second = submit(client)
        run_to_the_end(api, node)
        view = BuildView.model_validate(client.get(second.headers["location"]).json())
        before = BuildView.model_validate(client.get(f"/v1/builds/{first['id']}").json())

    assert view.state is BuildState.SUCCEEDED
    assert view.targets[0].cached is True
    assert view.targets[0].artifact == before.targets[0].artifact
    assert all(job.attempts == [] for job in view.jobs if job.stage is not Stage.PUBLISH)


def test_a_log_is_a_tail_while_the_job_runs_and_the_whole_afterwards(api: Served) -> None:
    node = enrol(api)
    with node.client, api.client(Scope.SUBMIT) as client:
        submit(client)
        job_id = node.next_job()
        assert job_id is not None
        work = node.claim(job_id)
        node.beat(work, log_tail="first line\n")
        node.beat(work, log_tail="second line\n")
        running = client.get(f"/v1/jobs/{job_id}/attempts/1/log")
        log = node.upload(work, "log", "job.log", b"the whole log\n", "text/plain; charset=utf-8")
        node.finish(work, state="succeeded", facts={"findings": []}, log=log)
        settle_due(api.farm)
        ended = client.get(f"/v1/jobs/{job_id}/attempts/1/log")
        missing = client.get(f"/v1/jobs/{job_id}/attempts/2/log")
        with api.client(Scope.ADMIN, tenant="other") as stranger:
            foreign = stranger.get(f"/v1/jobs/{job_id}/attempts/1/log")

    assert (running.text, running.headers["x-log-part"]) == ("first line\nsecond line\n", "tail")
    assert (ended.text, ended.headers["x-log-part"]) == ("the whole log\n", "whole")
    assert ended.headers["content-type"] == "text/plain; charset=utf-8"
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown_attempt")
    assert (foreign.status_code, foreign.json()["code"]) == (404, "unknown_attempt")


def test_the_same_idempotency_key_is_the_same_build(api: Served) -> None:
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        key = {"Idempotency-Key": "release-7"}
        first = submit(client, headers=key)
        again = submit(client, headers=key)
        other = submit(client, headers=key, priority=1)
        odd = submit(client, headers={"Idempotency-Key": "two words"})

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")
    assert (odd.status_code, odd.json()["code"]) == (400, "invalid_parameter")
    assert api.rows("builds") == {"builds": 1}


@pytest.mark.parametrize("query", ["?dry_run=1", "?dry_run", "?dry_run=true&explain=1", "?explain"])
def test_a_dry_run_plans_and_writes_nothing(api: Served, query: str) -> None:
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        body = {"model": upload(client), "targets": [TARGET]}
        answer = client.post(f"/v1/builds{query}", json=body)

    plan = PlanView.model_validate(answer.json())
    assert answer.status_code == 200
    assert plan.targets[0].backend_version == VERSION
    assert [job.queue for job in plan.targets[0].jobs][:2] == ["check.cpu", "compile.cpu"]
    assert plan.targets[0].jobs[0].outcome == "build"
    assert (plan.targets[0].jobs[0].miss is not None) == ("explain" in query)
    assert api.rows("builds", "jobs", "outbox") == {"builds": 0, "jobs": 0, "outbox": 0}


def test_pages_go_from_the_newest_to_the_oldest_and_miss_none(api: Served) -> None:
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        model = upload(client)
        made = [submit(client, model=model, seed=seed).json()["id"] for seed in range(5)]
        seen, cursor = [], None
        while True:
            query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
            page = BuildPage.model_validate(client.get("/v1/builds", params=query).json())
            seen += [item.id for item in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break

    assert seen == sorted(made, reverse=True)


def test_filters_are_met_together(api: Served) -> None:
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        model = upload(client)
        one = submit(client, model=model, labels={"team": "vision", "tier": "a"}).json()["id"]
        submit(client, model=model, seed=1, labels={"team": "vision"})
        gone = submit(client, model=model, seed=2, labels={"team": "speech"}).json()["id"]
        client.post(f"/v1/builds/{gone}/cancel")

        def found(query: str) -> list[str]:
            items = client.get(f"/v1/builds?{query}").json()["items"]
            return [item["id"] for item in items]

        assert found("label=team=vision&label=tier=a") == [one]
        assert found("state=cancelled") == [gone]
        assert len(found("state=cancelled&state=running&state=pending")) == 3
        assert len(found(f"model={model}&target={TARGET}")) == 3
        assert found("target=tensorrt-rtx@sm_89") == []
        assert found(f"model={digest_of(b'other')}") == []


def test_a_page_costs_the_same_few_questions_however_long_it_is(
    api: Served, queries: list[str]
) -> None:
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        model = upload(client)
        counts = []
        for seed in range(6):
            submit(client, model=model, seed=seed)
            if seed in (0, 5):
                queries.clear()
                client.get("/v1/builds")
                counts.append(len(queries))

    assert counts[0] == counts[1]
    assert counts[0] <= 8


def test_cancelling_stops_what_waits_and_is_not_undone(api: Served) -> None:
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        build_id = submit(client).json()["id"]
        first = client.post(f"/v1/builds/{build_id}/cancel")
        second = client.post(f"/v1/builds/{build_id}/cancel")

    assert (first.status_code, first.json()["state"]) == (200, "cancelled")
    assert {job["state"] for job in first.json()["jobs"]} == {"cancelled"}
    assert (second.status_code, second.json()["state"]) == (200, "cancelled")


def test_another_tenants_build_is_not_there(api: Served) -> None:
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        build_id = submit(client).json()["id"]
    with api.client(Scope.ADMIN, tenant="other") as stranger:
        answers = [
            stranger.get(f"/v1/builds/{build_id}"),
            stranger.post(f"/v1/builds/{build_id}/cancel"),
            stranger.get(f"/v1/builds/{build_id}/events"),
        ]
        listed = stranger.get("/v1/builds").json()["items"]
    with api.client(Scope.READ) as client:
        kept = client.get(f"/v1/builds/{build_id}").json()

    assert [(a.status_code, a.json()["code"]) for a in answers] == [(404, "unknown_build")] * 3
    assert listed == []
    assert kept["state"] != "cancelled"


DYNAMIC = onnx_model(["batch", 4])
X = {"min": [1, 4], "opt": [2, 4], "max": [8, 4]}
BAD: dict[str, tuple[dict[str, Any], int, str]] = {
    "misspelt field": ({"profile": []}, 400, "unknown_field"),
    "misspelt option": ({"options": {"compile": {"workspace": 1}}}, 400, "unknown_field"),
    "misspelt stage": ({"options": {"compil": {}}}, 400, "unknown_field"),
    "misspelt gate": ({"gates": [{"metric": "cosin", "at_least": 1}]}, 400, "invalid_field"),
    "gate without a bound": ({"gates": [{"metric": "cosine"}]}, 400, "invalid_field"),
    "no targets": ({"targets": []}, 400, "invalid_field"),
    "the same target twice": ({"targets": [TARGET, TARGET]}, 400, "invalid_field"),
    "unknown backend": ({"targets": ["onnxruntme@cpu"]}, 400, "unknown_backend"),
    "unknown architecture": ({"targets": ["tensorrt@sm_91"]}, 400, "unknown_architecture"),
    "not a target": ({"targets": ["cpu"]}, 400, "invalid_target"),
    "impossible target": ({"targets": ["tensorrt-rtx@sm_90"]}, 400, "unsupported_architecture"),
    "a target nobody serves": ({"targets": ["tensorrt@sm_90"]}, 422, "target_not_served"),
    "dynamic input without a profile": ({"profiles": []}, 422, "profile_required"),
    "min above opt": ({"profiles": [{"x": X | {"min": [4, 4]}}]}, 422, "profile_order"),
    "wrong rank": ({"profiles": [{"x": X | {"opt": [2]}}]}, 422, "profile_rank"),
    "extra input": ({"profiles": [{"x": X, "y": X}]}, 422, "profile_unknown_input"),
    "missing input": ({"profiles": [{}]}, 422, "profile_missing_input"),
    "unknown model": ({"model": digest_of(b"none")}, 404, "unknown_model"),
    "unknown dataset": ({"evaluation": digest_of(b"none")}, 404, "unknown_dataset"),
    "not a digest": ({"model": "abc"}, 400, "invalid_field"),
    "label that is no name": ({"labels": {"Team!": "x"}}, 400, "invalid_field"),
}


@pytest.mark.parametrize(("changes", "status", "code"), BAD.values(), ids=BAD.keys())
def test_a_bad_build_is_refused_by_its_code_and_nothing_is_written(
    api: Served, changes: dict[str, Any], status: int, code: str
) -> None:
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        body = {"model": upload(client, DYNAMIC), "profiles": [{"x": X}]} | changes
        answer = submit(client, **body)

    assert (answer.status_code, answer.json().get("code")) == (status, code), answer.text
    assert answer.json()["detail"]
    assert answer.json()["fix"]
    assert api.rows("builds", "jobs", "outbox", "events") == {
        "builds": 0,
        "jobs": 0,
        "outbox": 0,
        "events": 0,
    }


def test_the_nearest_field_backend_and_input_are_named(api: Served) -> None:
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        model = upload(client, DYNAMIC)
        field = submit(client, model=model, profile=[{"x": X}]).json()
        backend = submit(client, model=model, targets=["onnxruntme@cpu"]).json()
        proposal = submit(client, model=model).json()

    assert "'profiles'" in field["fix"]
    assert "'onnxruntime'" in backend["fix"]
    assert proposal["code"] == "profile_required"
    assert "x=" in proposal["fix"] + str(proposal["context"])


@pytest.mark.parametrize(
    ("arrays", "code"),
    [
        ({"z": [[0.0] * 4]}, "dataset_unknown_input"),
        ({"x": [0.0] * 4}, "dataset_rank"),
    ],
)
def test_a_dataset_that_does_not_fit_the_model_is_refused(
    api: Served, arrays: dict[str, Any], code: str
) -> None:
    import numpy as np

    data = npz(**{name: np.array(value, np.float32) for name, value in arrays.items()})
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        dataset = client.post("/v1/datasets", content=data, headers=OCTETS).json()["digest"]
        answer = submit(client, evaluation=dataset)

    assert answer.status_code == 422, answer.text
    assert answer.json()["type"] == "urn:enginefarm:problem:invalid-dataset"
    assert answer.json()["code"] == code
    assert api.rows("builds") == {"builds": 0}


@pytest.mark.parametrize(
    ("content", "kind", "code"),
    [
        (b'{"model": ', "application/json", "invalid_json"),
        (b"[]", "application/json", "invalid_body"),
        (b"null", "application/json", "invalid_body"),
        (b"", "application/json", "invalid_body"),
        (b'{"model": 1}', "text/plain", "invalid_body"),
        (b"\xff\xfe", "application/json", "invalid_json"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(
    api: Served, content: bytes, kind: str, code: str
) -> None:
    with api.client(Scope.SUBMIT) as client:
        answer = client.post("/v1/builds", content=content, headers={"Content-Type": kind})

    assert (answer.status_code, answer.json()["code"]) == (400, code), answer.text


def test_targets_say_who_serves_them(api: Served) -> None:
    with enrol(api).client, api.client(Scope.READ) as client:
        listed = {row["target"]: row for row in client.get("/v1/targets").json()}

    assert listed[TARGET]["compiles"] == ["node-1"]
    assert listed[TARGET]["measures"] == ["node-1"]
    assert listed[TARGET]["versions"] == [VERSION]
    assert listed["tensorrt@sm_90"]["compiles"] == []
