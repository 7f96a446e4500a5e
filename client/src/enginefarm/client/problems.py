"""Turn what went wrong over HTTP back into the farm's own errors."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
from pydantic import ValidationError

from enginefarm import errors
from enginefarm.errors import FarmError, InvalidRequest, JobFailed, Unavailable
from enginefarm.state import Blame
from enginefarm.views import Problem

_TYPE = "urn:enginefarm:problem:"
_BY_STATUS: dict[int, type[FarmError]] = {
    400: errors.InvalidRequest,
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    410: errors.Gone,
    413: errors.TooLarge,
    422: errors.InvalidRequest,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
}


def _families(root: type[FarmError]) -> Iterator[tuple[str, type[FarmError]]]:
    yield re.sub(r"(?<=[a-z])(?=[A-Z])", "-", root.__name__).lower(), root
    for child in root.__subclasses__():
        yield from _families(child)


_BY_TYPE = dict(_families(FarmError))


def error_of(response: httpx.Response) -> FarmError:
    """Return the error that a response with a status of 400 or more tells of; its body is read."""
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        return _not_a_problem(response)
    family = _BY_TYPE.get(problem.type.removeprefix(_TYPE)) or _family_of(response.status_code)
    if issubclass(family, JobFailed):
        error: FarmError = family(problem.detail, blame=Blame.FARM, code=problem.code)
    else:
        error = family(problem.detail, code=problem.code)
    error.why, error.fix, error.context = problem.why, problem.fix, dict(problem.context)
    return error


def unreachable(url: str, error: httpx.TransportError) -> FarmError:
    """Return the error for a connection that failed."""
    if isinstance(error, httpx.UnsupportedProtocol):
        return invalid_url(url)
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return Unavailable(
            f"There is no answer at {url}.",
            code="farm_unreachable",
            why=f"The connection failed: {_reason(error)}.",
            fix="Start the farm (make farm), or name the right address with --url.",
        )
    if isinstance(error, httpx.TimeoutException):
        return Unavailable(
            f"{url} takes too long to answer.",
            code="farm_timeout",
            why=f"Nothing came for a while: {_reason(error)}.",
            fix="Try again; if this repeats, ask the farm's operator.",
        )
    return Unavailable(
        f"The connection to {url} broke.",
        code="connection_lost",
        why=f"{_reason(error)}.",
        fix="Try again: nothing that the farm has accepted is lost.",
    )


def unreadable(url: str, error: ValidationError) -> FarmError:
    """Return the error for an answer that is not what was asked for."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"])) or "the body"
    return FarmError(
        f"The answer of {url} cannot be read.",
        code="unexpected_answer",
        why=f"{where}: {first['msg']}.",
        fix="Check that this is the farm's address, and that the client is as new as the farm.",
    )


def invalid_url(url: str) -> FarmError:
    """Return the error for an address that is none."""
    return InvalidRequest(
        f"{url[:200]!r} is not a farm's address.",
        code="invalid_url",
        why="It must begin with http:// or https:// and name a host.",
        fix="Write it like http://127.0.0.1:8080.",
    )


def _not_a_problem(response: httpx.Response) -> FarmError:
    error = _family_of(response.status_code)(
        f"{response.url.copy_with(query=None)} answered {response.status_code}.",
        code="unexpected_answer" if response.is_client_error else "unavailable",
    )
    error.why = "What answers there is not a farm, or something stands in between."
    error.fix = "Check the address; if it is right, try again later or ask the farm's operator."
    return error


def _family_of(status: int) -> type[FarmError]:
    return _BY_STATUS.get(status, FarmError)


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__).rstrip(".")
