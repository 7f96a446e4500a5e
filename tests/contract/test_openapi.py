"""The OpenAPI document is complete: a person or a generator needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from api.app import create_app
from api.settings import ApiSettings

PROBLEM = "application/problem+json"
PATHS = {
    "/healthz": {"get"},
    "/metrics": {"get"},
    "/readyz": {"get"},
    "/v1/artifacts/{digest}": {"get"},
    "/v1/artifacts/{digest}/attestations": {"get"},
    "/v1/artifacts/{digest}/revoke": {"post"},
    "/v1/artifacts/{digest}/summary": {"get"},
    "/v1/blobs/{digest}": {"get", "head"},
    "/v1/builds": {"get", "post"},
    "/v1/builds/{build_id}": {"get"},
    "/v1/builds/{build_id}/bump": {"post"},
    "/v1/builds/{build_id}/cancel": {"post"},
    "/v1/builds/{build_id}/events": {"get"},
    "/v1/comparisons": {"get", "post"},
    "/v1/comparisons/{comparison_id}": {"get"},
    "/v1/comparisons/{comparison_id}/attestation": {"get"},
    "/v1/datasets": {"post"},
    "/v1/datasets/{digest}": {"get"},
    "/v1/jobs/{job_id}/attempts/{number}/log": {"get"},
    "/v1/models": {"get", "post"},
    "/v1/models/{digest}": {"get"},
    "/v1/nodes": {"get"},
    "/v1/searches": {"get", "post"},
    "/v1/searches/{search_id}": {"get"},
    "/v1/searches/{search_id}/cancel": {"post"},
    "/v1/targets": {"get"},
    "/v1/plugins": {"get"},
    "/v1/timing-caches": {"get"},
    "/v1/timing-caches/{digest}": {"get"},
    "/v1/timing-caches/{digest}/drop": {"post"},
    "/v1/timing-caches/{digest}/pin": {"post"},
    "/v1/trust": {"get"},
    "/v1/uploads": {"post"},
    "/v1/uploads/{upload_id}": {"delete", "get"},
    "/v1/uploads/{upload_id}/complete": {"post"},
    "/v1/uploads/{upload_id}/files/{file}": {"put"},
    "/v1/uploads/{upload_id}/parts": {"post"},
    "/worker/v1/beat": {"post"},
    "/worker/v1/claims": {"post"},
    "/worker/v1/enrol": {"post"},
    "/worker/v1/jobs/{job_id}/beat": {"post"},
    "/worker/v1/jobs/{job_id}/finish": {"post"},
    "/worker/v1/jobs/{job_id}/timing-cache": {"post"},
    "/worker/v1/jobs/{job_id}/timing-cache/refusals": {"post"},
    "/worker/v1/jobs/{job_id}/uploads": {"post"},
}
OPEN = {"/healthz", "/metrics", "/readyz", "/v1/trust"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    settings = ApiSettings.model_validate(
        {
            "database_url": "postgresql+psycopg://nowhere/none",
            "valkey_url": "redis://nowhere",
            "s3_access_key": "none",
            "s3_secret_key": "none",
        }
    )
    return create_app(settings).openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_the_paths_are_those_that_were_promised(document: dict[str, Any]) -> None:
    assert {path: set(methods) for path, methods in document["paths"].items()} == PATHS


def test_each_operation_is_described(document: dict[str, Any]) -> None:
    tags = {tag["name"] for tag in document["tags"]}
    for path, method, operation in operations(document):
        assert operation["summary"], (method, path)
        assert operation["description"].endswith("."), (method, path)
        assert set(operation["tags"]) <= tags, (method, path)
        assert len(operation["tags"]) == 1, (method, path)


def test_operation_ids_are_unique(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]

    assert len(names) == len(set(names))


def test_each_success_says_what_comes_back(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        good = {
            status: response
            for status, response in operation["responses"].items()
            if status in ("200", "201", "206")
        }
        assert good, (method, path)
        for status, response in good.items():
            assert response["description"], (method, path, status)
            if method != "head":
                assert response["content"], (method, path, status)


def test_each_failure_is_a_problem_with_an_example(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        if path in {"/healthz", "/readyz"}:
            continue
        bad = {s: r for s, r in operation["responses"].items() if int(s) >= 400}
        assert bad, (method, path)
        for status, response in bad.items():
            assert set(response["content"]) == {PROBLEM}, (method, path, status)
            content = response["content"][PROBLEM]
            assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
            assert content["example"]["status"] == int(status)


def test_each_path_says_who_may(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        schemes = [name for entry in operation.get("security", []) for name in entry]
        if path in OPEN:
            assert schemes == [], (method, path)
        elif path == "/worker/v1/enrol":
            assert schemes == ["EnrolmentToken"]
        elif path.startswith("/worker/"):
            assert schemes == ["NodeCredential"], (method, path)
        else:
            assert schemes == ["AccessKey"], (method, path)
            assert {"401", "403", "503"} <= set(operation["responses"]), (method, path)


def test_each_parameter_is_described(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        for parameter in operation.get("parameters", []):
            assert parameter.get("description"), (method, path, parameter["name"])


def test_the_frameworks_own_error_is_not_in_it(document: dict[str, Any]) -> None:
    assert "HTTPValidationError" not in str(document)


def test_the_body_of_a_build_has_an_example_that_is_one(document: dict[str, Any]) -> None:
    from enginefarm.spec import BuildSpec

    body = document["paths"]["/v1/builds"]["post"]["requestBody"]["content"]["application/json"]

    assert body["examples"]
    for example in body["examples"].values():
        BuildSpec.model_validate(example["value"])
