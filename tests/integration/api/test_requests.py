"""What is around every request: its id, its numbers, its problems, and readiness."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import pytest
import structlog

from enginefarm.state import Scope
from storage import catalogue, retention_rounds
from storage.database import Database
from storage.progress import ProgressStreams
from storage.retention import Rule
from tasks.farm import Farm
from tests.integration.api.made import artifact
from tests.integration.api.served import Served


def test_a_plain_request_id_is_echoed_and_another_is_replaced(api: Served) -> None:
    with api.with_text(None) as client:
        kept = client.get("/healthz", headers={"X-Request-Id": "ci-run.42"})
        other = client.get("/healthz", headers={"X-Request-Id": "two words"})
        none = client.get("/healthz")

    assert kept.headers["x-request-id"] == "ci-run.42"
    assert other.headers["x-request-id"] not in ("two words", none.headers["x-request-id"])
    assert len(none.headers["x-request-id"]) == 16


def answered(logs: list[structlog.typing.EventDict]) -> structlog.typing.EventDict:
    """Return the line of the request; it is written after the answer, so it may still be coming."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for entry in list(logs):
            if entry["event"] == "request_answered":
                return entry
        time.sleep(0.01)
    pytest.fail("the request was never logged")


def test_the_log_names_request_key_and_build(api: Served) -> None:
    text = api.key(Scope.READ)

    with structlog.testing.capture_logs() as logs, api.with_text(text) as client:
        client.get("/v1/builds/bld_none", headers={"X-Request-Id": "abc"})
        line = answered(logs)

    assert line["route"] == "/v1/builds/{build_id}"
    assert line["status"] == 404
    assert line["build_id"] == "bld_none"
    assert line["key_id"] == text.split("_")[1]
    assert text not in str(logs)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "no_such_path"),
        ("GET", "/v1/nothing/here", 404, "no_such_path"),
        ("DELETE", "/v1/builds", 405, "method_not_allowed"),
        ("GET", "/v1/trust?fresh=1", 400, "unknown_parameter"),
        ("GET", "/v1/builds?limt=3", 400, "unknown_parameter"),
        ("GET", "/v1/builds?limit=0", 400, "invalid_parameter"),
        ("GET", "/v1/builds?limit=201", 400, "invalid_parameter"),
        ("GET", "/v1/builds?state=done", 400, "invalid_parameter"),
        ("GET", "/v1/builds?cursor=bld_'; drop", 400, "invalid_cursor"),
        ("GET", "/v1/builds?label=team", 400, "invalid_label"),
        ("GET", "/v1/builds?target=tensorrtx@sm_89", 400, "unknown_backend"),
        ("GET", "/v1/builds?target=cpu", 400, "invalid_target"),
        ("GET", "/v1/builds?target=tensorrt-rtx@sm_86+sm_90", 400, "unsupported_architecture"),
        ("GET", "/v1/builds?model=abc", 400, "invalid_digest"),
        ("GET", "/v1/models/sha256:abc", 400, "invalid_digest"),
        ("GET", "/v1/jobs/job_1/attempts/0/log", 400, "invalid_parameter"),
        ("GET", "/v1/jobs/job_1/attempts/one/log", 400, "invalid_parameter"),
    ],
)
def test_a_request_that_cannot_be_right_is_a_problem(
    api: Served, method: str, path: str, status: int, code: str
) -> None:
    with api.client(Scope.ADMIN) as client:
        answer = client.request(method, path, headers={"X-Request-Id": "abc"})

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code), answer.text
    assert problem["status"] == status
    assert problem["instance"] == "urn:enginefarm:request:abc"
    assert answer.headers["content-type"] == "application/problem+json"
    if status == 405:
        assert "GET" in answer.headers["allow"]


@pytest.mark.parametrize(
    "headers",
    [{}, {"Content-Type": "application/x-www-form-urlencoded"}, {"Content-Type": "text/plain"}],
    ids=["none", "what curl sends", "text"],
)
def test_json_without_its_content_type_is_told_which_header_is_missing(
    api: Served, headers: dict[str, str]
) -> None:
    with api.client(Scope.SUBMIT) as client:
        answer = client.post("/v1/builds", content=b'{"model": "sha256:abc"}', headers=headers)

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (400, "invalid_body"), answer.text
    assert "Content-Type: application/json" in problem["why"]
    assert "Content-Type: application/json" in problem["fix"]


def test_the_nearest_parameter_is_named(api: Served) -> None:
    with api.client(Scope.READ) as client:
        answer = client.get("/v1/builds?lable=team=vision")

    assert "'label'" in answer.json()["fix"]


def test_the_unexpected_tells_the_request_and_nothing_of_our_insides(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_arguments: object) -> None:
        secret = "password of the database"
        raise ZeroDivisionError(secret)

    monkeypatch.setattr(catalogue, "list_models", crash)
    with structlog.testing.capture_logs() as logs, api.client(Scope.READ) as client:
        answer = client.get("/v1/models", headers={"X-Request-Id": "abc"})

    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert answer.headers["x-request-id"] == "abc"
    assert "abc" in answer.json()["fix"]
    assert "password" not in answer.text
    assert "ZeroDivision" not in answer.text
    assert any(entry["event"] == "request_crashed" and entry["exc_info"] for entry in logs)


def test_without_valkey_the_api_is_ready_and_names_what_is_poorer(
    serve: Callable[..., Served], farm: Farm
) -> None:
    lame = serve(farm=dataclasses.replace(farm, progress=ProgressStreams("redis://127.0.0.1:9/0")))

    with lame.with_text(None) as client:
        answer = client.get("/readyz")

    told = answer.json()
    assert (answer.status_code, told["ready"], told["degraded"]) == (200, True, ["valkey"])
    assert told["checks"]["valkey"]["error"] == "valkey_away"


def test_ready_names_what_is_away(serve: Callable[..., Served], farm: Farm, api: Served) -> None:
    nowhere = Database("postgresql+psycopg://nobody@127.0.0.1:9/none")
    lame = serve(farm=dataclasses.replace(farm, database=nowhere))

    with api.with_text(None) as client:
        good = client.get("/readyz")
    with lame.with_text(None) as client:
        bad = client.get("/readyz")
        alive = client.get("/healthz")

    checks = bad.json()["checks"]
    assert (good.status_code, good.json()["ready"], good.json()["degraded"]) == (200, True, [])
    assert set(good.json()["checks"]) == {"database", "bucket", "valkey"}
    assert (bad.status_code, bad.json()["ready"], alive.status_code) == (503, False, 200)
    assert {name: check["ok"] for name, check in checks.items()} == {
        "database": False,
        "bucket": True,
        "valkey": True,
    }
    assert checks["database"]["error"] == "database_away"


def test_without_the_database_the_answer_is_try_again(
    serve: Callable[..., Served], farm: Farm, api: Served
) -> None:
    nowhere = Database("postgresql+psycopg://nobody@127.0.0.1:9/none")
    lame = serve(farm=dataclasses.replace(farm, database=nowhere))

    with lame.with_text(api.key(Scope.READ)) as client:
        answer = client.get("/v1/builds")
    nowhere.dispose()

    assert (answer.status_code, answer.json()["code"]) == (503, "database_away")
    assert answer.headers["retry-after"] == "5"
    assert "nobody" not in answer.text


def test_the_numbers_count_requests_by_route_and_builds_by_state(
    serve: Callable[..., Served],
) -> None:
    api = serve()
    artifact(api.farm, api.tenant())
    with api.farm.database.transaction() as session:
        retention_rounds.note(session, Rule.QUARANTINED, 3)

    with api.client(Scope.READ) as client:
        client.get("/v1/builds/bld_none")
        client.request("BREW", "/coffee")
        text = client.get("/metrics").text

    labels = 'method="GET",route="/v1/builds/{build_id}",status="404"'
    assert f"enginefarm_http_requests_total{{{labels}}} 1.0" in text
    assert 'enginefarm_builds{state="succeeded"} 1.0' in text
    assert "enginefarm_outbox_unsent 0.0" in text
    assert 'enginefarm_retention_unreadable{rule="quarantined"} 3.0' in text
    assert "enginefarm_http_request_seconds_bucket" in text
    assert "bld_none" not in text
    assert 'method="other"' in text


def test_a_json_body_above_the_limit_is_refused_unread(serve: Callable[..., Served]) -> None:
    api = serve(max_body_bytes=1000)

    with api.client(Scope.SUBMIT) as client:
        declared = client.post("/v1/builds", content=b"x" * 100_000)
        chunked = client.post(
            "/v1/builds",
            content=iter([b"x" * 600] * 2),
            headers={"Content-Type": "application/json"},
        )

    assert [(answer.status_code, answer.json()["code"]) for answer in (declared, chunked)] == [
        (413, "too_large"),
        (413, "too_large"),
    ]


@pytest.mark.parametrize(
    "path",
    ["/v1/builds/%00", "/v1/builds/%00/events", "/v1/jobs/%00/attempts/1/log", "/v1/builds/a%0ab"],
)
def test_what_can_be_no_id_is_an_id_that_nobody_has(api: Served, path: str) -> None:
    with api.client(Scope.READ) as client:
        assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {"a": "x\0"}},
        {"labels": {"a": "\x1b[2J"}},
        {"targets": [{"backend": "foo", "arch": "bar"}]},
        {"targets": [{"backend": "onnxruntime", "arch": "c\0pu"}], "wait_for_node": 60},
        {"targets": [{"backend": "onnxruntime", "arch": "cpu", "x": 1}]},
        {"targets": ["onnxruntime@cpu\n"]},
        {"gates": [{"metric": "cosine", "at_least": "NaN"}]},
        {"synthetic": {"x": {"value": "Infinity"}}},
    ],
)
def test_text_and_numbers_that_cannot_be_kept_are_refused_at_the_door(
    api: Served, change: dict[str, object]
) -> None:
    body = {"model": SOME_DIGEST, "targets": ["onnxruntime@cpu"]} | change
    with api.client(Scope.SUBMIT) as client:
        answer = client.post("/v1/builds", json=body)

    assert answer.status_code == 400, answer.text


def test_who_may_not_send_a_body_is_not_told_what_is_wrong_with_it(api: Served) -> None:
    with api.client(Scope.DEPLOY) as client, api.with_text("ef_unknown") as stranger:
        assert client.post("/v1/builds", json={}).status_code == 403
        assert stranger.post("/v1/builds", json={}).status_code == 401


SOME_DIGEST = "sha256:" + "0" * 64
