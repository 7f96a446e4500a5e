"""Searches over HTTP: begun once, shown, listed and cancelled, each by its tenant alone."""

from __future__ import annotations

from typing import Any

import httpx

from enginefarm.search_views import SearchPage, SearchView
from enginefarm.state import BuildState, Scope
from tasks.search.advance import advance_due
from tests.integration.api.asked import TARGET, upload
from tests.integration.api.node import enrol
from tests.integration.api.served import Served
from tests.integration.tasks.scene import Scene
from tests.integration.tasks.searching import Answering, Searching


def begun(client: httpx.Client, key: str | None = None, **more: Any) -> httpx.Response:  # noqa: ANN401
    body = {"build": {"model": upload(client), "targets": [str(TARGET)]}}
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.post("/v1/searches", json=body | more, headers=headers)


def test_a_search_is_begun_once_shown_listed_and_cancelled(api: Served) -> None:
    node = enrol(api)
    with node.client, api.client(Scope.SUBMIT) as client:
        first, again = begun(client, "k"), begun(client, "k")
        assert (first.status_code, again.status_code) == (201, 200), first.text
        view = SearchView.model_validate(first.json())
        assert first.headers["location"] == f"/v1/searches/{view.id}"
        assert again.json()["id"] == view.id
        assert view.candidates == []
        assert any("int8 is not tried" in note for note in view.notes)

        advance_due(api.farm)
        shown = SearchView.model_validate(client.get(f"/v1/searches/{view.id}").json())
        assert [row.precision.kind for row in shown.candidates] == ["as-is", "fp16"]
        assert {row.build_state for row in shown.candidates} <= {
            BuildState.PENDING,
            BuildState.RUNNING,
        }
        assert all(row.outcome is None for row in shown.candidates)
        page = SearchPage.model_validate(client.get("/v1/searches?limit=1").json())
        assert [(row.id, row.tried) for row in page.items] == [(view.id, 2)]

        ended = SearchView.model_validate(client.post(f"/v1/searches/{view.id}/cancel").json())
        assert ended.state == "cancelled"
        assert {row.build_state for row in ended.candidates} == {BuildState.CANCELLED}


def test_a_candidate_whose_artifact_was_revoked_since_the_end_says_so(api: Served) -> None:
    scene = Scene.on(api.farm)
    node = Answering(api.farm, "node-a", needed=0)
    searching = Searching.begun(scene)
    row = searching.run(node)
    with api.client(Scope.SUBMIT) as client:
        path = f"/v1/searches/{searching.id}"
        before = SearchView.model_validate(client.get(path).json())
        assert before.artifact is not None
        why = {"reason": "calibrated on the wrong data"}
        assert client.post(f"/v1/artifacts/{before.artifact}/revoke", json=why).status_code == 200
        after = SearchView.model_validate(client.get(path).json())

    assert (after.chosen, after.artifact) == (row.chosen, before.artifact)
    states = {each.number: each.outcome.artifact_state for each in after.candidates if each.outcome}
    assert [number for number, state in states.items() if state == "revoked"] == [row.chosen]


def test_what_is_no_search_is_refused_with_its_field(api: Served) -> None:
    node = enrol(api)
    with node.client, api.client(Scope.SUBMIT) as client:
        misspelt = begun(client, budget={"candidate": 3})
        assert misspelt.status_code == 400
        assert "candidates" in misspelt.text
        cursor = client.get("/v1/searches?cursor=nonsense")
        assert cursor.json()["code"] == "invalid_cursor"
        assert client.get("/v1/searches/srch_none").json()["code"] == "unknown_search"


def test_a_stranger_sees_no_search_of_another_tenant(api: Served) -> None:
    node = enrol(api)
    with node.client, api.client(Scope.SUBMIT) as client:
        view = begun(client).json()
        with api.client(Scope.SUBMIT, tenant="globex") as stranger:
            assert stranger.get(f"/v1/searches/{view['id']}").status_code == 404
            assert stranger.post(f"/v1/searches/{view['id']}/cancel").status_code == 404
            assert stranger.get("/v1/searches").json()["items"] == []
