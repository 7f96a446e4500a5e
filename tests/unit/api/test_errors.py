"""Every error has a status and leaves as a problem that says what, why and what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from api.errors import STATUS, problem_of, problem_response, status_of, unexpected
from enginefarm import errors
from enginefarm.errors import FarmError
from enginefarm.state import Blame


def families(root: type[FarmError] = FarmError) -> Iterator[type[FarmError]]:
    if not root.__name__.startswith("_"):
        yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from families(child)


def test_every_family_has_a_status_and_no_status_lacks_a_family() -> None:
    assert set(families()) == set(STATUS)


def test_a_problem_carries_everything_the_error_says() -> None:
    error = errors.InvalidProfile(
        "min is above max.", code="profile_order", why="Of x, dim 0.", fix="Swap them.", dim=0
    )

    problem = problem_of(error, "abc")

    assert problem.type == "urn:enginefarm:problem:invalid-profile"
    assert problem.title == "Invalid profile"
    assert problem.status == 422
    assert problem.detail == "min is above max."
    assert problem.code == "profile_order"
    assert problem.why == "Of x, dim 0."
    assert problem.fix == "Swap them."
    assert problem.context == {"dim": 0}
    assert problem.instance == "urn:enginefarm:request:abc"


@pytest.mark.parametrize(
    ("error", "header", "value"),
    [
        (errors.Unauthenticated("No key."), "www-authenticate", 'Bearer realm="enginefarm"'),
        (
            errors.Unauthenticated("Old key.", code="key_expired"),
            "www-authenticate",
            'Bearer realm="enginefarm", error="invalid_token", error_description="key_expired"',
        ),
        (errors.Unavailable("Away."), "retry-after", "5"),
        (errors.TooLarge("Big."), "connection", "close"),
        (errors.NotFound("Gone."), "content-type", "application/problem+json"),
        (errors.NotFound("Gone."), "cache-control", "no-store"),
    ],
)
def test_a_status_brings_its_headers(error: FarmError, header: str, value: str) -> None:
    assert problem_response(error, {"type": "http"}).headers[header] == value


def test_a_failed_job_keeps_its_own_code() -> None:
    error = errors.JobFailed("Crash.", blame=Blame.NODE, code="crashed")

    assert (status_of(error), problem_of(error, "abc").code) == (500, "crashed")


def test_the_unexpected_says_which_request_it_was_and_nothing_else() -> None:
    scope = {"type": "http", "state": {"request_id": "abc"}}

    body = json.loads(bytes(unexpected(scope).body))

    assert body["status"] == 500
    assert body["code"] == "internal"
    assert "abc" in body["fix"]
    assert body["instance"] == "urn:enginefarm:request:abc"
