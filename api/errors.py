"""How an error leaves over HTTP: always ``application/problem+json`` (RFC 9457).

One table maps each family of :mod:`enginefarm.errors` to a status; the errors themselves know no
HTTP. ``type`` names the family, ``code`` the exact case, ``instance`` the request in our logs.
An error that nobody foresaw says nothing of our insides, only which request it was.
"""

from __future__ import annotations

import re

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import Scope

from api.limits import BodyTooLarge
from api.validation import explain_request
from enginefarm import errors
from enginefarm.errors import FarmError
from enginefarm.views import Problem

PROBLEM_TYPE = "application/problem+json"
STATUS: dict[type[FarmError], int] = {
    errors.FarmError: 500,
    errors.InvalidRequest: 400,
    errors.InvalidModel: 422,
    errors.InvalidDataset: 422,
    errors.InvalidProfile: 422,
    errors.TooLarge: 413,
    errors.QuotaExceeded: 429,
    errors.NotServed: 422,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Gone: 410,
    errors.Conflict: 409,
    errors.LeaseLost: 409,
    errors.JobFailed: 500,
    errors.VerificationFailed: 422,
    errors.Unavailable: 503,
}
"""Every family and its status; a test proves that none is missing."""

RETRY_AFTER_S = 5
log = structlog.get_logger(__name__)


def status_of(error: FarmError) -> int:
    """Return the HTTP status of an error."""
    return STATUS[type(error)]


def problem_of(error: FarmError, request_id: str, status: int | None = None) -> Problem:
    """Return the body that tells a person of an error; ``status`` only where routing decided."""
    family = type(error).__name__
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", family).lower()
    return Problem(
        type=f"urn:enginefarm:problem:{words.replace(' ', '-')}",
        title=words.capitalize(),
        status=status or status_of(error),
        detail=error.message,
        code=error.code,
        why=error.why,
        fix=error.fix,
        context=error.context,
        instance=f"urn:enginefarm:request:{request_id}",
    )


def problem_response(error: FarmError, scope: Scope, status: int | None = None) -> Response:
    """Return the response for an error, with the headers its status asks for."""
    problem = problem_of(error, request_id_of(scope), status)
    headers = {"Cache-Control": "no-store"}
    if problem.status == STATUS[errors.Unauthenticated]:
        headers["WWW-Authenticate"] = _challenge(error)
    if problem.status == STATUS[errors.Unavailable]:
        headers["Retry-After"] = str(RETRY_AFTER_S)
    if problem.status == STATUS[errors.TooLarge]:
        # The rest of the body is not read, so the connection cannot be used again.
        headers["Connection"] = "close"
    return Response(
        problem.model_dump_json(exclude_none=True),
        status_code=problem.status,
        headers=headers,
        media_type=PROBLEM_TYPE,
    )


def request_id_of(scope: Scope) -> str:
    """Return the id under which this request is in the logs."""
    return str(scope.get("state", {}).get("request_id", "unknown"))


def unexpected(scope: Scope) -> Response:
    """Return the response to an error that nobody foresaw."""
    error = FarmError(
        "The farm made a mistake.",
        code="internal",
        why="This is our fault, not yours; the cause is in the farm's log.",
        fix=f"Tell the operator this request id: {request_id_of(scope)}.",
    )
    return problem_response(error, scope)


def add_handlers(app: FastAPI) -> None:
    """Let every error of ``app`` leave as a problem."""
    app.add_exception_handler(FarmError, _farm_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _routing_error)


async def _farm_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, FarmError):
        raise error
    if status_of(error) >= STATUS[errors.FarmError]:
        log.warning("request_failed", code=error.code, message=error.message, why=error.why)
    return problem_response(error, request.scope)


async def _validation_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    entrance = getattr(request.state, "entrance", None)
    if entrance is not None:
        try:
            await run_in_threadpool(entrance.caller)
        except FarmError as refusal:  # whoever may not send it is not told what is wrong with it
            return problem_response(refusal, request.scope)
    return problem_response(explain_request(error, request.scope.get("route")), request.scope)


async def _routing_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    reason = _as_farm_error(request, error)
    response = problem_response(reason, request.scope, error.status_code)
    for name, value in _headers(request, error).items():
        response.headers[name] = value
    return response


def _headers(request: Request, error: HTTPException) -> dict[str, str]:
    """Return the headers that routing wants; it forgets methods that have a route of their own."""
    if error.status_code != _METHOD_NOT_ALLOWED:
        return dict(error.headers or {})
    app: FastAPI = request.app
    path = getattr(request.scope.get("route"), "path", "")
    methods = [method.upper() for method in app.openapi()["paths"].get(path, {})]
    return {"Allow": ", ".join(sorted(methods))}


def _as_farm_error(request: Request, error: HTTPException) -> FarmError:
    if isinstance(error, BodyTooLarge):
        return error.reason
    if error.status_code == STATUS[errors.NotFound]:
        return errors.NotFound(
            f"There is nothing at {request.url.path[:200]!r}.",
            code="no_such_path",
            fix="The paths are listed in /openapi.json and, to read, in /docs.",
        )
    if error.status_code == _METHOD_NOT_ALLOWED:
        return errors.InvalidRequest(
            f"{request.url.path[:200]!r} does not take {request.method}.",
            code="method_not_allowed",
            fix=f"It takes {_headers(request, error)['Allow'] or 'no method at all'}.",
        )
    return errors.InvalidRequest(
        "The request cannot be read.",
        code="unreadable_request",
        why=f"{error.detail}.",
        fix="Send what /openapi.json describes for this path.",
    )


_METHOD_NOT_ALLOWED = 405


def _challenge(error: FarmError) -> str:
    if error.code == errors.Unauthenticated.default_code:
        return 'Bearer realm="enginefarm"'
    return f'Bearer realm="enginefarm", error="invalid_token", error_description="{error.code}"'
