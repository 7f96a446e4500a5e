"""How the paths describe themselves: problems as the one form of error, and what many have alike.

The document is what FastAPI derives, with two corrections: problems have their own media type, and
the framework's own error body, which is never sent, is not in it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Header
from fastapi.openapi.utils import get_openapi

from enginefarm.views import Problem

PROBLEM_TYPE = "application/problem+json"
TAGS = [
    {"name": "models", "description": "ONNX files and their external data."},
    {"name": "datasets", "description": "Named arrays for evaluation and calibration."},
    {"name": "builds", "description": "Ask for engines, and follow how they come about."},
    {"name": "farm", "description": "What can be built here, and by whom."},
    {"name": "artifacts", "description": "Signed engines, by hash."},
    {"name": "operation", "description": "Health and numbers of this process."},
    {"name": "worker", "description": "What nodes say; not for people."},
]
_EXAMPLES: dict[int, tuple[str, str, str]] = {
    400: ("invalid-request", "unknown_field", "There is no field 'target'."),
    401: ("unauthenticated", "key_expired", "This key has expired."),
    403: ("forbidden", "scope_missing", "This key lacks the scope submit."),
    404: ("not-found", "unknown_build", "There is no build 'bld_0'."),
    409: ("conflict", "idempotency_conflict", "This Idempotency-Key was used for another request."),
    410: ("gone", "artifact_revoked", "This artifact was revoked on 2026-12-01."),
    412: ("conflict", "precondition_failed", "The blob does not have the ETag you named."),
    413: ("too-large", "too_large", "The body is larger than 1048576 bytes."),
    416: ("invalid-request", "range_not_satisfiable", "The range is outside of the 12 bytes."),
    422: ("invalid-model", "not_a_model", "This is not an ONNX model."),
    429: ("quota-exceeded", "quota_bytes", "Your tenant would keep 12 bytes; it may keep 10."),
    503: ("unavailable", "database_away", "The database does not answer."),
}


Responses = dict[int | str, dict[str, Any]]


def problems(*statuses: int, good: Responses | None = None) -> Responses:
    """Return the ``responses`` of a path: what it may fail with, beside how it may go well."""
    return (good or {}) | {status: _problem(status) for status in sorted(statuses)}


KEYED = (400, 401, 403, 503)
"""How every path with an access key can fail."""

IdempotencyKey = Annotated[
    str | None,
    Header(
        pattern=r"^[\x21-\x7e]{1,255}$",
        description="The same key with the same body answers with what it asked for before.",
    ),
]


def describe(app: FastAPI) -> None:
    """Make ``app`` answer ``/openapi.json`` with the corrected document."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _corrected(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _problem(status: int) -> dict[str, Any]:
    family, code, detail = _EXAMPLES[status]
    example = Problem(
        type=f"urn:enginefarm:problem:{family}",
        title=family.replace("-", " ").capitalize(),
        status=status,
        detail=detail,
        code=code,
        instance="urn:enginefarm:request:9f86d081884c7d65",
    )
    content = {PROBLEM_TYPE: {"example": example.model_dump(mode="json")}}
    return {
        "model": Problem,
        "description": f"{HTTPStatus(status).phrase}: a problem (RFC 9457).",
        "content": content,
    }


def _corrected(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=app.description,
        routes=app.routes,
        tags=TAGS,
    )
    for operations in document["paths"].values():
        for operation in operations.values():
            _correct(operation["responses"])
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    return document


def _correct(responses: dict[str, Any]) -> None:
    for status, response in list(responses.items()):
        content = response.get("content", {})
        for media_type, body in list(content.items()):
            name = body.get("schema", {}).get("$ref", "").rpartition("/")[2]
            if name == "HTTPValidationError":
                del responses[status]
            elif name == "Problem" and media_type != PROBLEM_TYPE:
                del content[media_type]
                content.setdefault(PROBLEM_TYPE, {})["schema"] = body["schema"]
