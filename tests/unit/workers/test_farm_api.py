"""The worker API's client: what it retries, what it gives up, and as which error."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from enginefarm import errors
from enginefarm.views import Problem
from tasks.messages import ClaimRequest, LeaseBeat, NodeBeat
from workers.farm_api import WorkerApi

RING = ClaimRequest(job_id="job_1", attempt=1)
DECLINED = {"assignment": None, "declined": "taken"}
Handler = Callable[[httpx.Request], httpx.Response]


def api(handler: Handler) -> WorkerApi:
    """Return a client whose requests ``handler`` answers, and which does not sleep."""
    return WorkerApi(
        "http://farm/",
        "en_1_secret",
        transport=httpx.MockTransport(handler),
        sleep=lambda _seconds: None,
    )


def problem(status: int, code: str) -> httpx.Response:
    """Return a problem document."""
    body = Problem(type="about:blank", title="t", status=status, detail="d", code=code, fix="f")
    return httpx.Response(status, content=body.model_dump_json())


def test_a_call_carries_the_credential_and_names_its_path() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=DECLINED)

    assert api(answer).claim(RING).declined == "taken"
    assert seen[0].url == "http://farm/worker/v1/claims"
    assert seen[0].headers["Authorization"] == "Bearer en_1_secret"


@pytest.mark.parametrize("fault", [500, 502, 503, 429, "refused", "slow", "nonsense"])
def test_a_farm_that_is_away_is_tried_again(fault: int | str) -> None:
    tries: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        tries.append(1)
        if len(tries) > 2:
            return httpx.Response(200, json=DECLINED)
        if fault == "refused":
            raise httpx.ConnectError("refused", request=request)
        if fault == "slow":
            raise httpx.ReadTimeout("slow", request=request)
        if fault == "nonsense":
            return httpx.Response(200, text="<html>")
        return httpx.Response(int(fault))

    assert api(answer).claim(RING).declined == "taken"
    assert len(tries) == 3


def test_a_claim_that_is_tried_again_is_the_same_and_the_next_is_another() -> None:
    said: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        said.append(ClaimRequest.model_validate_json(request.content).claim_id or "")
        if len(said) == 1:
            raise httpx.ReadTimeout("slow", request=request)
        return httpx.Response(200, json=DECLINED)

    client = api(answer)
    client.claim(RING)
    client.claim(RING)
    first, repeated, other = said
    assert first == repeated != other
    assert first


def test_patience_ends() -> None:
    with pytest.raises(errors.Unavailable) as caught:
        api(lambda _request: httpx.Response(503)).claim(RING, patience_s=0)
    assert caught.value.code == "farm_away"
    assert "HTTP 503" in caught.value.why


def test_beats_are_tried_once_since_another_follows() -> None:
    tries: list[int] = []

    def answer(_request: httpx.Request) -> httpx.Response:
        tries.append(1)
        return httpx.Response(503)

    with pytest.raises(errors.Unavailable):
        api(answer).beat(NodeBeat())
    with pytest.raises(errors.Unavailable):
        api(answer).lease_beat("job_1", LeaseBeat(attempt=1, lease_token="t"))
    assert len(tries) == 2


@pytest.mark.parametrize(
    ("status", "code", "family"),
    [
        (409, "lease_lost", errors.LeaseLost),
        (409, "conflict", errors.Conflict),
        (401, "unknown_node", errors.Unauthenticated),
        (403, "scope_missing", errors.Forbidden),
        (404, "not_found", errors.NotFound),
        (413, "too_large", errors.TooLarge),
        (400, "invalid_field", errors.InvalidRequest),
    ],
)
def test_a_refusal_is_the_farms_own_error_and_is_not_tried_again(
    status: int, code: str, family: type[errors.FarmError]
) -> None:
    tries: list[int] = []

    def answer(_request: httpx.Request) -> httpx.Response:
        tries.append(1)
        return problem(status, code)

    with pytest.raises(family) as caught:
        api(answer).claim(RING)
    assert caught.value.code == code
    assert caught.value.fix == "f"
    assert len(tries) == 1


def test_an_answer_that_is_not_the_farms_is_named() -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        api(lambda _request: httpx.Response(404, text="nginx")).claim(RING)
    assert caught.value.code == "farm_answer_strange"
    assert "404" in caught.value.message
