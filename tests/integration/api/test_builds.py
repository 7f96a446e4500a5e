"""Builds over HTTP: asked for, planned, listed, cancelled, and carried through to an artifact."""

from __future__ import annotations

import pytest

from enginefarm.digest import digest_of
from enginefarm.plan_views import PlanView
from enginefarm.state import PLAIN_STAGES, BuildState, JobState, Scope, Stage
from enginefarm.views import (
    ArtifactView,
    BuildPage,
    BuildView,
)
from tasks.messages import BackendDescription, Device
from tasks.settle import settle_due
from tests.integration.api.asked import TARGET, run_to_the_end, submit, upload
from tests.integration.api.made import onnx_model
from tests.integration.api.node import ENGINE, VERSION, enrol
from tests.integration.api.served import Served


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
        (stage, JobState.SUCCEEDED) for stage in PLAIN_STAGES
    ]
    compiled = next(job for job in view.jobs if job.stage is Stage.COMPILE)
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


FOUND = {
    "severity": "note",
    "code": "weights_twice",
    "message": "1 large weights are there twice: 1.3 MB.",
    "tensors": ["embedding = head"],
}


@pytest.mark.parametrize("state", ["succeeded", "failed"])
def test_what_a_check_found_is_shown_however_it_ended(api: Served, state: str) -> None:
    node = enrol(api)
    with node.client, api.client(Scope.SUBMIT) as client:
        build = submit(client, until="check", options={"repair": {"mode": "none"}}).json()
        job_id = node.next_job()
        assert job_id is not None
        work = node.claim(job_id)
        failure = {
            "code": "unsupported_operator",
            "blame": "person",
            "message": "No.",
            "context": {"findings": [FOUND]},
        }
        ended = {"failure": failure} if state == "failed" else {"facts": {"findings": [FOUND]}}
        node.finish(work, state=state, **ended)
        settle_due(api.farm)
        view = BuildView.model_validate(client.get(f"/v1/builds/{build['id']}").json())

    (job,) = view.jobs
    assert str(job.state) == state
    assert [each.code for each in job.findings] == ["weights_twice"]


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
    assert [job.queue for job in plan.targets[0].jobs][:2] == ["repair.cpu", "check.cpu"]
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


def test_checks_are_told_from_builds(api: Served) -> None:
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        model = upload(client)
        built = submit(client, model=model).json()
        checked = submit(client, model=model, seed=1, until="check").json()

        def found(query: str) -> list[tuple[str, str]]:
            items = client.get(f"/v1/builds?{query}").json()["items"]
            return [(item["id"], item["kind"]) for item in items]

        assert (built["kind"], checked["kind"]) == ("build", "check")
        assert found("kind=check") == [(checked["id"], "check")]
        assert found("kind=build") == [(built["id"], "build")]
        assert found("") == [(checked["id"], "check"), (built["id"], "build")]
        assert client.get("/v1/builds?kind=other").status_code == 400


def test_when_a_build_was_bumped_is_told(api: Served) -> None:
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        asked = submit(client).json()
        bumped = client.post(f"/v1/builds/{asked['id']}/bump").json()
        listed = client.get("/v1/builds").json()["items"]

    assert asked["bumped_at"] is None
    assert bumped["bumped_at"] is not None
    assert [item["bumped_at"] for item in listed] == [bumped["bumped_at"]]


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


def test_targets_say_who_serves_them(api: Served) -> None:
    with enrol(api).client, api.client(Scope.READ) as client:
        listed = {row["target"]: row for row in client.get("/v1/targets").json()}

    assert listed[TARGET]["compiles"] == ["node-1"]
    assert listed[TARGET]["measures"] == ["node-1"]
    assert listed[TARGET]["versions"] == [VERSION]
    assert listed[TARGET]["in_this_version"] is True
    assert listed[TARGET]["skus"] == []
    assert listed["tensorrt-llm@sm_90"]["compiles"] == []
    assert listed["tensorrt-llm@sm_90"]["in_this_version"] is False


def test_targets_say_on_which_gpus_they_are_built_or_run(api: Served) -> None:
    backend = BackendDescription(
        name="tensorrt", version="11.4", builds=["sm_89"], measures=[], on_device=["sm_89"]
    )
    ahead = BackendDescription(name="tensorrt-rtx", version="1.7", builds=["sm_89"], measures=[])
    gpu = Device(arch="sm_89", name="NVIDIA L4", uuid="GPU-1")
    node = enrol(api, "gpu", backend, ahead, devices=[gpu])
    with node.client, api.client(Scope.READ) as client:
        listed = {row["target"]: row for row in client.get("/v1/targets").json()}

    assert listed["tensorrt@sm_89"]["skus"] == ["l4"]
    assert listed["tensorrt-rtx@sm_89"]["skus"] == []
