"""What is no longer there is told: by which code, since when, by which rule, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from enginefarm.cli.app import invoke
from enginefarm.client import FarmClient
from enginefarm.digest import digest_of
from enginefarm.errors import NotFound
from enginefarm.install import BlobCache
from enginefarm.install import pull as install
from enginefarm.state import JobState, Scope, Stage
from storage import catalogue, jobs
from storage.retention import Rule, Terms
from tasks.keeping import Keeper
from tests.integration.api.asked import run_to_the_end, submit, upload
from tests.integration.api.made import onnx_model
from tests.integration.api.node import Node, enrol
from tests.integration.api.served import Served
from tests.integration.tasks.ageing import let_pass

MONTH_S = 31 * 86_400


@pytest.fixture
def node(api: Served) -> Iterator[Node]:
    made = enrol(api)
    with made.client:
        yield made


def build(api: Served, node: Node, **changes: object) -> dict[str, str]:
    """Build to the end; return the build's id, and its artifact's digest and engine's."""
    with api.client(Scope.SUBMIT, Scope.READ) as client:
        build_id = submit(client, **changes).json()["id"]
        run_to_the_end(api, node)
        view = client.get(f"/v1/builds/{build_id}").json()
    (engine,) = next(job for job in view["jobs"] if job["stage"] == "compile")["outputs"]
    (target,) = view["targets"]
    return {"build": build_id, "artifact": target["artifact"], "engine": engine["digest"]}


def keep(api: Served, rule: Rule) -> None:
    keeper = Keeper(api.farm, Terms({rule: 30}))
    while not keeper.rounds:
        keeper.turn()


@pytest.mark.parametrize("how", ["?proxy=1", ""])
def test_a_blob_that_vanished_is_told_when_it_is_fetched_and_built_anew(
    api: Served, node: Node, how: str
) -> None:
    with api.client(Scope.DEPLOY) as deployer:
        made = build(api, node)
        api.farm.objects.remove(made["engine"])
        answer = deployer.get(f"/v1/blobs/{made['engine']}{how}")
        asked = deployer.head(f"/v1/blobs/{made['engine']}{how}")
        manifest = deployer.get(f"/v1/artifacts/{made['artifact']}")
        summary = deployer.get(f"/v1/artifacts/{made['artifact']}/summary").json()
        again = build(api, node)
        whole = deployer.get(f"/v1/blobs/{again['engine']}?proxy=1")

    told = answer.json()
    assert (answer.status_code, told["code"], asked.status_code) == (404, "blob_lost", 404)
    assert "build again" in told["fix"]
    assert "restore the bucket" in told["fix"]
    assert manifest.headers["x-lost-files"] == "model.onnx"
    assert summary["lost"] == ["model.onnx"]
    assert digest_of(whole.content) == again["engine"]
    with api.farm.database.transaction() as session:
        (compiled,) = (
            job
            for job in jobs.of_build(session, api.tenant(), again["build"])
            if job.stage == Stage.COMPILE
        )
    assert (compiled.state, compiled.cached_from) == (JobState.SUCCEEDED, None)


def test_a_bucket_that_was_restored_is_believed_again(api: Served, node: Node) -> None:
    with api.client(Scope.DEPLOY) as deployer:
        made = build(api, node)
        data = api.farm.objects.read(made["engine"], 1 << 20)
        api.farm.objects.remove(made["engine"])
        deployer.get(f"/v1/blobs/{made['engine']}")
        api.farm.objects.put_bytes(made["engine"], data, "application/octet-stream")
        answer = deployer.get(f"/v1/blobs/{made['engine']}?proxy=1")
        summary = deployer.get(f"/v1/artifacts/{made['artifact']}/summary").json()

    assert (answer.status_code, answer.content, summary["lost"]) == (200, data, [])


def test_a_report_that_vanished_is_published_anew_by_the_next_build(
    api: Served, node: Node
) -> None:
    made = build(api, node)
    with api.client(Scope.DEPLOY) as deployer:
        files = deployer.get(f"/v1/artifacts/{made['artifact']}/summary").json()["files"]
        (report,) = (file["digest"] for file in files if file["name"] == "report.json")
        api.farm.objects.remove(report)
        assert deployer.get(f"/v1/blobs/{report}").json()["code"] == "blob_lost"
        again = build(api, node)
        summary = deployer.get(f"/v1/artifacts/{again['artifact']}/summary").json()

    assert again["artifact"] != made["artifact"]
    assert (again["engine"], summary["lost"]) == (made["engine"], [])


def test_pull_and_show_say_what_is_lost(
    api: Served,
    node: Node,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = build(api, node)
    api.farm.objects.remove(made["engine"])
    monkeypatch.setenv("ENGINEFARM_URL", api.url)
    monkeypatch.setenv("ENGINEFARM_KEY", api.key(Scope.READ, Scope.DEPLOY))

    with FarmClient(api.url, api.key(Scope.DEPLOY)) as farm:
        keys = farm.trust().keys
        with pytest.raises(NotFound) as refused:
            install(
                farm.artifacts, made["artifact"], tmp_path / "e", keys, cache=BlobCache(tmp_path)
            )
    invoke(["show", made["build"]])

    assert refused.value.code == "blob_lost"
    assert "model.onnx" in refused.value.message
    assert not (tmp_path / "e").exists()
    shown = " ".join(capsys.readouterr().out.split())
    assert "published, lost" in shown
    assert "the bucket has lost model.onnx" in shown
    assert f"enginefarm pull {made['artifact']}" not in shown


def test_an_expired_log_says_when_and_by_which_rule(api: Served, node: Node) -> None:
    made = build(api, node)
    let_pass(api.farm, MONTH_S)
    keep(api, Rule.LOGS)
    with api.client(Scope.READ) as client:
        view = client.get(f"/v1/builds/{made['build']}").json()
        job = next(row for row in view["jobs"] if row["stage"] == "compile")
        answer = client.get(f"/v1/jobs/{job['id']}/attempts/1/log")

    (attempt,) = job["attempts"]
    told = answer.json()
    assert (answer.status_code, told["code"]) == (404, "log_expired")
    assert attempt["log_expired_at"][:10] in told["detail"]
    assert "ENGINEFARM_LOGS_KEPT_DAYS" in told["why"]
    assert (attempt["log"], told["context"]["rule"]) == (None, "logs")


def test_who_comes_back_for_events_that_expired_is_told_where_the_build_ended(
    api: Served, node: Node
) -> None:
    made = build(api, node)
    let_pass(api.farm, MONTH_S)
    keep(api, Rule.EVENTS)
    with api.client(Scope.READ) as client:
        path, seen = f"/v1/builds/{made['build']}/events", {"Last-Event-ID": "2.0-0"}
        told = client.get(path, headers=seen)

    assert told.status_code == 200
    assert told.text.count("event: ") == 1
    assert "event: snapshot" in told.text
    assert '"state":"succeeded"' in told.text


@pytest.mark.usefixtures("node")
def test_an_expired_model_is_told_and_taken_again(api: Served) -> None:
    data = onnx_model(salt=9)
    with api.client(Scope.SUBMIT) as client, api.client(Scope.READ) as reader:
        model = upload(client, data)
        let_pass(api.farm, MONTH_S)
        seen = reader.get(f"/v1/models/{model}")
        keep(api, Rule.MODELS)
        shown = client.get(f"/v1/models/{model}")
        refused = submit(client, model=model)
        again = client.post("/v1/models", content=data)
        taken = submit(client, model=model)

    assert seen.status_code == 200
    assert (shown.status_code, shown.json()["code"]) == (404, "model_expired")
    assert (refused.status_code, refused.json()["code"]) == (404, "model_expired")
    assert "Upload it again" in refused.json()["fix"]
    assert (again.status_code, again.json()["existed"]) == (201, False)
    assert taken.status_code == 201


@pytest.mark.usefixtures("node")
def test_who_looks_at_a_model_to_submit_it_does_not_find_it_gone(api: Served) -> None:
    with api.client(Scope.SUBMIT) as client:
        model = upload(client)
        let_pass(api.farm, MONTH_S)
        assert client.get(f"/v1/models/{model}").status_code == 200
        keep(api, Rule.MODELS)
        taken = submit(client, model=model)

    assert taken.status_code == 201
    with api.farm.database.transaction() as session:
        assert catalogue.expired(session, api.tenant(), "models", model) is None
