"""What a search waits for: room for more jobs, and nodes; and how many a tenant may have."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from enginefarm.errors import QuotaExceeded
from enginefarm.search import SearchState
from enginefarm.search_views import Outcome
from enginefarm.state import NodeState
from storage import tenants
from storage.database import now
from storage.models import Node, Search
from tasks import quotas
from tasks.farm import Farm
from tasks.search import advance
from tests.integration.tasks.fake_node import backend
from tests.integration.tasks.scene import Scene
from tests.integration.tasks.searching import Answering, Searching
from tests.integration.tasks.test_precisions import dataset


@pytest.fixture
def node(farm: Farm) -> Answering:
    return Answering(farm, "node-a", needed=0)


def outcomes(searching: Searching) -> list[Outcome]:
    return [Outcome.model_validate(row.outcome) for row in searching.candidates() if row.outcome]


def limited(scene: Scene, jobs: int | None) -> None:
    with scene.farm.database.transaction() as session:
        tenants.get(session, scene.tenant_id).max_unfinished = jobs


def test_where_there_is_no_room_for_more_jobs_it_waits_and_says_so(
    scene: Scene, node: Answering
) -> None:
    limited(scene, 8)
    searching = Searching.begun(scene)
    searching.step()
    assert len(searching.builds()) == 1
    assert "It waits for room" in searching.row().verdict
    limited(scene, None)
    assert searching.run(node).state is SearchState.SUCCEEDED


def all_are(scene: Scene, state: NodeState) -> None:
    with scene.farm.database.transaction() as session:
        session.execute(update(Node).values(state=state))


def test_while_every_node_is_away_it_waits_and_no_candidate_is_lost(
    scene: Scene, node: Answering
) -> None:
    searching = Searching.begun(scene)
    all_are(scene, NodeState.OFFLINE)
    searching.step()
    assert searching.candidates() == []
    assert "It waits for a node" in searching.row().verdict
    all_are(scene, NodeState.ACTIVE)
    assert searching.run(node).state is SearchState.SUCCEEDED
    assert all(row.failure is None for row in outcomes(searching))


def test_where_no_node_comes_back_it_ends_as_a_job_that_waits_does(
    scene: Scene, node: Answering
) -> None:
    searching = Searching.begun(scene)
    all_are(scene, NodeState.OFFLINE)
    with scene.farm.database.transaction() as session:
        long_ago = now() - timedelta(seconds=scene.farm.policy.pending_s + 1)
        session.execute(update(Search).where(Search.id == searching.id).values(created_at=long_ago))
    for _ in range(2):
        searching.step()
    assert searching.row().state is SearchState.FAILED
    codes = {row.failure.code for row in outcomes(searching) if row.failure is not None}
    assert codes == {"target_not_served"}


FP8: dict[str, Any] = {
    "space": {"kinds": ["int8", "fp8"], "methods": ["minmax"]},
    "budget": {"at_once": 16, "candidates": 16},
}


def with_modelopt(farm: Farm) -> Answering:
    """Return a node that builds for a GPU that computes in fp8, and has ModelOpt."""
    there = [backend(), backend(name="tensorrt-rtx", arch="sm_89"), backend(name="modelopt")]
    return Answering(farm, "node-rtx", there, needed=0)


def of_fp8(searching: Searching) -> list[Outcome | None]:
    rows = [row for row in searching.candidates() if row.precision["kind"] == "fp8"]
    return [None if row.outcome is None else Outcome.model_validate(row.outcome) for row in rows]


def without_modelopt(scene: Scene, node: Answering) -> None:
    node.backends = [row for row in node.backends if row.name != "modelopt"]
    node.start_again()


def begun_with_modelopt(scene: Scene) -> tuple[Searching, Answering]:
    node = with_modelopt(scene.farm)
    build = {
        "model": scene.model,
        "targets": ["tensorrt-rtx@sm_89"],
        "evaluation": dataset(scene, "held out"),
    }
    return Searching.begun(scene, build=build, **FP8), node


def test_what_no_node_has_the_tool_for_waits_while_the_rest_is_tried(scene: Scene) -> None:
    searching, node = begun_with_modelopt(scene)
    without_modelopt(scene, node)
    for _ in range(6):
        searching.step()
        searching.work(node)
    assert searching.row().state is SearchState.RUNNING
    assert searching.row().verdict.startswith("It waits for a node with modelopt")
    assert len(outcomes(searching)) == 2
    assert of_fp8(searching) == []
    node.backends.append(backend(name="modelopt"))
    node.start_again()
    assert searching.run(node).state is SearchState.SUCCEEDED
    assert [row and row.failure for row in of_fp8(searching)] == [None]


def test_what_waits_for_a_tool_is_told_untried_when_it_has_waited_long(scene: Scene) -> None:
    searching, node = begun_with_modelopt(scene)
    without_modelopt(scene, node)
    patient = scene.farm.policy
    for _ in range(6):
        searching.step()
        searching.work(node)
    hasty = replace(scene.farm, policy=replace(patient, search_tool_wait_s=0.0))
    advance.advance_due(hasty)
    row = searching.row()
    assert row.state is SearchState.SUCCEEDED
    assert "2 more were not: no live node has modelopt." in row.verdict
    told = of_fp8(searching)[0]
    assert told is not None
    assert told.untried
    assert told.failure is not None
    assert told.failure.code == "precision_not_served"


def test_while_the_target_is_away_nothing_is_given_up_for_its_tool(scene: Scene) -> None:
    searching, node = begun_with_modelopt(scene)
    searching.step()
    all_are(scene, NodeState.OFFLINE)
    hasty = replace(scene.farm, policy=replace(scene.farm.policy, search_tool_wait_s=0.0))
    advance.advance_due(hasty)
    assert searching.row().state is SearchState.RUNNING
    all_are(scene, NodeState.ACTIVE)
    assert searching.run(node).state is SearchState.SUCCEEDED
    assert not any(row.untried for row in outcomes(searching))


def test_where_there_is_never_room_it_ends_and_says_so(scene: Scene, node: Answering) -> None:
    limited(scene, 1)
    searching = Searching.begun(scene)
    searching.step()
    with scene.farm.database.transaction() as session:
        long_ago = now() - timedelta(seconds=scene.farm.policy.pending_s + 1)
        session.execute(update(Search).where(Search.id == searching.id).values(created_at=long_ago))
    for _ in range(2):
        searching.step()
    assert searching.row().state is SearchState.FAILED
    codes = {row.failure.code for row in outcomes(searching) if row.failure is not None}
    assert codes == {"quota_jobs"}


def test_a_tenant_has_only_so_many_searches_that_are_not_over(
    scene: Scene, node: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "MAX_RUNNING_SEARCHES", 2)
    first = Searching.begun(scene, key="k")
    Searching.begun(scene)
    with pytest.raises(QuotaExceeded) as refused:
        Searching.begun(scene)
    assert refused.value.code == "quota_searches"
    assert Searching.begun(scene, key="k").id == first.id
    advance.cancel(scene.farm, scene.tenant_id, first.id)
    Searching.begun(scene)
