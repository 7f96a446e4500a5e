"""What nodes say: each step over HTTP, and a lease that belongs to somebody else."""

from __future__ import annotations

import httpx
import pytest

from enginefarm.digest import digest_of
from enginefarm.state import Scope
from storage.staging import staged_at
from tests.integration.api.asked import submit
from tests.integration.api.node import ENGINE, Node, description, enrol
from tests.integration.api.served import TOKEN, Served


@pytest.fixture
def queued(api: Served) -> tuple[Node, str]:
    """A node, and a job that it may claim."""
    node = enrol(api)
    with api.client(Scope.SUBMIT) as client:
        assert submit(client).status_code == 201
    job_id = node.next_job()
    assert job_id is not None
    return node, job_id


def test_a_node_that_enrols_gets_its_queues_and_is_listed(api: Served) -> None:
    node = enrol(api)
    with node.client, api.client(Scope.READ) as client:
        beat = node.post("beat", {"running": []})
        listed = client.get("/v1/nodes").json()

    assert node.enrolled.queues == [
        "benchmark.cpu",
        "calibrate.cpu",
        "cast.cpu",
        "check.cpu",
        "compile.cpu",
        "repair.cpu",
    ]
    assert beat.json()["queues"] == node.enrolled.queues
    assert [(row["name"], row["state"], row["cores"]) for row in listed] == [
        ("node-1", "active", 2)
    ]
    assert "credential" not in str(listed)


def test_a_node_that_enrols_again_has_only_its_new_credential(api: Served) -> None:
    old = enrol(api)
    new = enrol(api, previous=old)
    with old.client, new.client:
        refused = old.post("beat", {"running": []})
        welcome = new.post("beat", {"running": []})

    assert (refused.status_code, refused.json()["code"]) == (401, "node_unknown")
    assert welcome.status_code == 200
    assert api.rows("nodes") == {"nodes": 1}


def test_a_second_node_of_a_living_ones_name_is_refused(api: Served) -> None:
    enrol(api)
    with api.with_text(TOKEN) as client:
        message = {"name": "node-1", "description": description().model_dump(mode="json")}
        answer = client.post("/worker/v1/enrol", json=message)

    assert (answer.status_code, answer.json()["code"]) == (409, "node_name_taken")
    assert "ENGINEFARM_NODE_NAME" in answer.json()["fix"]


@pytest.mark.parametrize("name", ["", "Node", "../node", "a" * 64, "no de", "-node"])
def test_a_node_with_a_name_that_is_none_does_not_enrol(api: Served, name: str) -> None:
    message = {"name": name, "description": description().model_dump(mode="json")}
    with api.with_text(TOKEN) as client:
        answer = client.post("/worker/v1/enrol", json=message)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_field")
    assert api.rows("nodes") == {"nodes": 0}


def test_a_running_job_is_shown_at_its_node_only_to_its_tenant(
    api: Served, queued: tuple[Node, str]
) -> None:
    node, job_id = queued
    with node.client, api.client(Scope.READ) as owner:
        node.claim(job_id)
        mine = owner.get("/v1/nodes").json()
        with api.client(Scope.ADMIN, tenant="other") as stranger:
            theirs = stranger.get("/v1/nodes").json()

    assert mine[0]["running"] == [job_id]
    assert theirs[0]["running"] == []


def test_a_job_is_given_out_once(api: Served, queued: tuple[Node, str]) -> None:
    node, job_id = queued
    other = enrol(api, "node-2")
    with node.client, other.client:
        node.claim(job_id)
        late = other.post("claims", {"job_id": job_id, "attempt": 1})

    assert (late.status_code, late.json()["assignment"]) == (200, None)
    assert late.json()["declined"] == "running"


def test_a_lease_belongs_to_one_node(api: Served, queued: tuple[Node, str]) -> None:
    node, job_id = queued
    other = enrol(api, "node-2")
    with node.client, other.client:
        work = node.claim(job_id)
        lease = {"attempt": 1, "lease_token": work.lease_token}
        file = {
            "role": "engine",
            "name": "model.onnx",
            "digest": digest_of(ENGINE),
            "size": len(ENGINE),
            "media_type": "application/octet-stream",
        }
        answers = [
            other.post(f"jobs/{job_id}/beat", lease),
            other.post(f"jobs/{job_id}/uploads", lease | {"files": [file]}),
            other.post(f"jobs/{job_id}/finish", lease | {"state": "succeeded"}),
            node.post(f"jobs/{job_id}/beat", lease | {"lease_token": "guessed"}),
            node.post(f"jobs/{job_id}/beat", lease | {"attempt": 2}),
        ]
        kept = node.beat(work)

    assert [(a.status_code, a.json()["code"]) for a in answers] == [(409, "lease_lost")] * 5
    assert answers[0].json()["type"] == "urn:enginefarm:problem:lease-lost"
    assert kept.status_code == 200


def test_bytes_other_than_announced_are_not_taken_by_the_bucket(
    api: Served, queued: tuple[Node, str]
) -> None:
    node, job_id = queued
    with node.client:
        work = node.claim(job_id)
        unique = b"bytes of this test alone: " + job_id.encode()
        file = {
            "role": "log",
            "name": "job.log",
            "digest": digest_of(unique),
            "size": len(unique),
            "media_type": "text/plain; charset=utf-8",
        }
        message = {"attempt": 1, "lease_token": work.lease_token, "files": [file]}
        slot = node.post(f"jobs/{job_id}/uploads", message).json()["files"][0]
        wrong = httpx.put(slot["url"], content=b"x" * len(unique), headers=slot["headers"])

    assert wrong.status_code == 400
    assert api.farm.objects.head(digest_of(unique)) is None
    assert api.farm.objects.staging.find(staged_at(job_id, 1, digest_of(unique))) is None


def test_a_cancelled_job_is_told_to_stop_with_its_next_beat(
    api: Served, queued: tuple[Node, str]
) -> None:
    node, job_id = queued
    with node.client, api.client(Scope.SUBMIT) as client:
        work = node.claim(job_id)
        client.post(f"/v1/builds/{work.build_id}/cancel")
        answer = node.beat(work)

    assert answer.json()["cancel"] is True


def test_a_message_with_a_field_we_do_not_know_is_refused(api: Served) -> None:
    node = enrol(api)
    with node.client:
        answer = node.post("claims", {"job_id": "job_1", "attempt": 1, "nodeid": "x"})

    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_field")
