"""The client over real HTTP: answers become views, refusals come back as themselves."""

from __future__ import annotations

import socket

import httpx
import pytest

from enginefarm import errors
from enginefarm.client import FarmClient
from enginefarm.errors import FarmError, InvalidRequest, NotFound, Unavailable
from enginefarm.spec import BuildSpec
from enginefarm.state import BuildState, JobState, Stage
from tests.unit.client.support.server import Handler, LoopbackFarm
from tests.unit.client.support.views import CPU, MODEL, build, job, published

FAMILIES = [
    ("invalid-request", errors.InvalidRequest, 400),
    ("invalid-model", errors.InvalidModel, 422),
    ("invalid-dataset", errors.InvalidDataset, 422),
    ("invalid-profile", errors.InvalidProfile, 422),
    ("too-large", errors.TooLarge, 413),
    ("not-served", errors.NotServed, 422),
    ("unauthenticated", errors.Unauthenticated, 401),
    ("forbidden", errors.Forbidden, 403),
    ("not-found", errors.NotFound, 404),
    ("conflict", errors.Conflict, 409),
    ("job-failed", errors.JobFailed, 422),
    ("verification-failed", errors.VerificationFailed, 422),
    ("unavailable", errors.Unavailable, 503),
    ("farm-error", errors.FarmError, 500),
]


@pytest.mark.parametrize(("kind", "family", "status"), FAMILIES)
def test_a_problem_comes_back_as_the_error_it_was(
    kind: str,
    family: type[FarmError],
    status: int,
    client: FarmClient,
    loopback: LoopbackFarm,
) -> None:
    loopback.routes["/v1/nodes"] = lambda handler: handler.problem(
        status, kind, "some_code", context={"field": "x"}
    )

    with pytest.raises(FarmError) as caught:
        client.fleet.nodes()

    error = caught.value
    assert type(error) is family
    assert (error.message, error.why, error.fix) == ("What happened.", "Why it did.", "What to do.")
    assert error.code == "some_code"
    assert error.context == {"field": "x"}


@pytest.mark.parametrize(
    ("status", "family"), [(404, NotFound), (502, Unavailable), (500, FarmError)]
)
def test_an_answer_that_is_no_problem_document_still_has_a_family(
    status: int, family: type[FarmError], client: FarmClient, loopback: LoopbackFarm
) -> None:
    loopback.routes["/v1/nodes"] = lambda handler: handler.reply(status, b"<html>proxy</html>")

    with pytest.raises(FarmError) as caught:
        client.fleet.nodes()
    assert type(caught.value) is family


def test_an_address_where_nobody_listens_says_what_to_do() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with FarmClient(url) as client, pytest.raises(Unavailable) as caught:
        client.fleet.nodes()
    assert caught.value.code == "farm_unreachable"
    assert url in caught.value.message
    assert caught.value.fix


@pytest.mark.parametrize("url", ["", "farm", "ftp://farm", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        FarmClient(url)
    assert caught.value.code == "invalid_url"


def test_an_answer_of_another_shape_is_told_as_such(
    client: FarmClient, loopback: LoopbackFarm
) -> None:
    loopback.routes["/v1/nodes"] = lambda handler: handler.reply(200, b'[{"id": 5}]')

    with pytest.raises(FarmError) as caught:
        client.fleet.nodes()
    assert caught.value.code == "unexpected_answer"


def test_a_redirect_of_anything_but_a_download_is_not_followed(
    client: FarmClient, loopback: LoopbackFarm
) -> None:
    loopback.routes["/v1/nodes"] = lambda handler: handler.reply(
        307, b"", {"Location": "http://127.0.0.1:9/elsewhere"}
    )

    with pytest.raises(FarmError) as caught:
        client.fleet.nodes()
    assert caught.value.code == "unexpected_redirect"


def test_the_key_goes_with_every_request(client: FarmClient, loopback: LoopbackFarm) -> None:
    loopback.routes["/v1/nodes"] = lambda handler: handler.reply(200, b"[]")

    client.fleet.nodes()

    assert loopback.seen[0].headers["Authorization"] == "Bearer ef_k_secret"


def test_submitting_twice_after_a_broken_answer_asks_with_the_same_key(
    client: FarmClient, loopback: LoopbackFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginefarm.client.builds.time.sleep", lambda _: None)
    done = build(BuildState.PENDING, [], [published()]).model_dump_json().encode()
    answers = iter([10, None])

    def answer(handler: Handler) -> None:
        handler.body()
        handler.reply(201, done, sent=next(answers))

    loopback.routes["/v1/builds"] = answer

    view, existed = client.builds.submit(BuildSpec(model=MODEL, targets=[CPU]))

    assert view.id == "bld_1"
    assert not existed
    keys = [seen.headers["Idempotency-Key"] for seen in loopback.seen]
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_filters_are_sent_only_when_given(client: FarmClient, loopback: LoopbackFarm) -> None:
    loopback.routes["/v1/builds"] = lambda handler: handler.reply(
        200, b'{"items":[],"next_cursor":null}'
    )

    client.builds.page()
    client.builds.page(states=[BuildState.FAILED], labels={"team": "vision"}, target="a@b")

    assert loopback.seen[0].path == "/v1/builds?limit=50"
    params = dict(httpx.URL(loopback.url + loopback.seen[1].path).params)
    assert params == {"limit": "50", "state": "failed", "target": "a@b", "label": "team=vision"}


def test_an_id_with_odd_characters_cannot_reach_another_path(
    client: FarmClient, loopback: LoopbackFarm
) -> None:
    with pytest.raises(NotFound):
        client.builds.get("../trust?x=")
    assert loopback.seen[0].path == "/v1/builds/..%2Ftrust%3Fx%3D"


def test_jobs_of_a_build_are_read(client: FarmClient, loopback: LoopbackFarm) -> None:
    view = build(BuildState.RUNNING, [job(Stage.COMPILE, JobState.RUNNING)], [published()])
    loopback.routes["/v1/builds/bld_1"] = lambda handler: handler.reply(
        200, view.model_dump_json().encode()
    )

    assert client.builds.get("bld_1") == view
