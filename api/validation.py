"""What FastAPI found wrong with a request, in our words; and query parameters nobody declared.

A misspelt field or parameter is refused and the nearest right one is named: taking it silently
would build something else than was asked.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel

from enginefarm.errors import FarmError, InvalidRequest
from enginefarm.nearest import did_you_mean
from enginefarm.spec_errors import explain_rows


def explain_request(error: RequestValidationError, route: object) -> FarmError:
    """Return the first thing that is wrong, as an error that says what to do."""
    first: dict[str, Any] = dict(error.errors()[0])
    where, *path = (str(part) for part in first["loc"])
    if first["type"] == "json_invalid":
        return InvalidRequest(
            "The body is not JSON.",
            code="invalid_json",
            why=f"{first.get('ctx', {}).get('error', first['msg'])} at character {path[0]}.",
            fix="Send one JSON object with Content-Type: application/json.",
        )
    if where == "body":
        return _explain_body(error, route, first)
    return InvalidRequest(
        f"The {where} parameter {'.'.join(path)!r} cannot be used.",
        code="invalid_parameter",
        why=f"{first['msg']}.",
        fix="Look at this path in /docs.",
        parameter=".".join(path),
    )


def _explain_body(error: RequestValidationError, route: object, first: dict[str, Any]) -> FarmError:
    if isinstance(error.body, dict):
        return explain_rows(error.errors(), _body_model(route))
    if isinstance(error.body, bytes):
        return InvalidRequest(
            "The body was not read as JSON.",
            code="invalid_body",
            why="It did not come with the header Content-Type: application/json.",
            fix="Send that header, for example: curl -H 'Content-Type: application/json' -d @FILE.",
        )
    return InvalidRequest(
        "The body is not the JSON object that belongs here.",
        code="invalid_body",
        why=f"{first['msg']}.",
        fix="Send one JSON object with Content-Type: application/json.",
    )


def _body_model(route: object) -> type[BaseModel] | None:
    field = getattr(route, "body_field", None)
    annotation = getattr(getattr(field, "field_info", None), "annotation", None)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return None


async def refuse_unknown_query(request: Request) -> None:
    """Refuse a query parameter that the path does not have.

    What a path has is read from the OpenAPI document, so the document cannot lie.

    Raises:
        InvalidRequest: code ``unknown_parameter``, naming the nearest.
    """
    if not request.query_params:
        return
    known = _query_parameters(request)
    for name in request.query_params:
        if name not in known:
            raise InvalidRequest(
                f"There is no query parameter {name[:40]!r} here.",
                code="unknown_parameter",
                fix=did_you_mean(name, known) if known else "This path takes none.",
                parameter=name[:40],
            )


def _query_parameters(request: Request) -> set[str]:
    app: FastAPI = request.app
    path = getattr(request.scope.get("route"), "path", "")
    operation = app.openapi()["paths"].get(path, {}).get(request.method.lower(), {})
    return {
        parameter["name"]
        for parameter in operation.get("parameters", [])
        if parameter["in"] == "query"
    }
