"""What a search waits for: room for more jobs, and nodes; and how many a tenant may have."""

from __future__ import annotations

from datetime import timedelta

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
from tests.integration.tasks.scene import Scene
from tests.integration.tasks.searching import Answering, Searching


@pytest.fixture
def node(farm: Farm) -> Answering:
    return Answering(farm, "node-a")


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
