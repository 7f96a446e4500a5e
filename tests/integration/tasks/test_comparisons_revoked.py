"""What becomes of comparisons and searches when an artifact of theirs is revoked, or is to go."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from enginefarm.comparison import ComparisonSpec
from enginefarm.errors import Conflict
from enginefarm.search import SearchState
from enginefarm.state import ArtifactState, BuildState, JobState, Stage
from storage.models import Artifact
from storage.retention import Rule, Terms
from tasks.app import make_app
from tasks.comparing.ask import ask
from tasks.dispatcher import dispatch
from tasks.submit import Accepted, Requester
from tests.integration.tasks.ageing import let_pass
from tests.integration.tasks.compared import artifact, asked, done
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.kept import DAY, has, keep, sweep
from tests.integration.tasks.scene import Scene
from tests.integration.tasks.searching import Answering, Searching

Pair = tuple[str, str]


@pytest.fixture
def pair(scene: Scene, node: FakeNode) -> Pair:
    """Return two artifacts of one model, with different engines."""
    other = {"compile": {"graph_optimization": "basic"}}
    return artifact(scene, node), artifact(scene, node, options=other)


def revoke(scene: Scene, digest: str | None = None) -> None:
    wanted = Artifact.tenant_id == scene.tenant_id
    with scene.farm.database.transaction() as session:
        mine = update(Artifact).where(wanted if digest is None else Artifact.digest == digest)
        session.execute(mine.values(state=ArtifactState.REVOKED))


def keyed(scene: Scene, pair: Pair, *, again: bool = False) -> Accepted:
    spec = ComparisonSpec(first=pair[0], second=pair[1], again=again)
    with scene.farm.database.transaction() as session:
        requester = Requester(scene.tenant_id, None, "once")
        return ask(session, scene.farm.policy, requester, spec)


def test_what_was_revoked_meanwhile_is_given_to_no_node_and_who_joined_is_asked_for_himself(
    scene: Scene, node: FakeNode, pair: Pair
) -> None:
    twice = (pair[1], pair[1])
    build_id, joined = asked(scene, *pair), asked(scene, *pair)
    other = asked(scene, *twice)
    revoke(scene, pair[0])
    assert node.ask(scene.job(build_id, Stage.BENCHMARK)).declined == "revoked"
    job = scene.job(build_id, Stage.BENCHMARK)
    assert (job.state, (job.failure or {})["code"]) == (JobState.FAILED, "comparison_revoked")
    assert scene.state(build_id) is BuildState.FAILED
    follower = scene.job(joined, Stage.BENCHMARK)
    assert (follower.state, follower.joined_to) == (JobState.QUEUED, None)
    assert node.ask(follower).declined == "revoked"
    assert scene.state(joined) is BuildState.FAILED
    done(scene, node, other)
    assert scene.state(other) is BuildState.SUCCEEDED


def test_an_idempotency_key_answers_as_before_though_an_artifact_was_revoked_since(
    scene: Scene, node: FakeNode, pair: Pair
) -> None:
    first = keyed(scene, pair)
    done(scene, node, first.build.id)
    revoke(scene, pair[1])
    second = keyed(scene, pair)
    assert (second.existed, second.build.id) == (True, first.build.id)
    with pytest.raises(Conflict) as refused:
        keyed(scene, pair, again=True)
    assert refused.value.code == "idempotency_key_reused"


def test_the_engine_of_an_artifact_that_a_comparison_waits_for_is_kept_until_it_is_over(
    scene: Scene, node: FakeNode
) -> None:
    first = artifact(scene, node)
    node.cosine = 0.5
    gate = {"metric": "cosine", "at_least": 0.99}
    second = artifact(scene, node, model=scene.other(), gates=[gate])
    let_pass(scene.farm, 100 * DAY)
    node.alive()
    build_id = asked(scene, first, second)
    recipe = scene.job(build_id, Stage.BENCHMARK).recipe or {}
    engine = recipe["compare"]["second"]["digest"]
    for there in (True, False):
        keep(scene.farm, Terms({Rule.QUARANTINED: 90}))
        sweep(scene.farm)
        assert has(scene, engine) is there
        if there:
            done(scene, node, build_id)
            assert scene.state(build_id) is BuildState.SUCCEEDED


def test_no_ring_of_a_comparison_goes_to_nodes_that_do_not_compare(
    scene: Scene, node: FakeNode, pair: Pair, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(valkey_url, publisher=True)
    build_id = asked(scene, *pair)
    described = node.described().model_copy(update={"compares": False})
    monkeypatch.setattr(FakeNode, "described", lambda _: described)
    node.start_again()
    assert dispatch(scene.farm, app) == 0
    monkeypatch.undo()
    node.start_again()
    assert dispatch(scene.farm, app) == 1
    assert scene.rings(build_id)[0].sent_at is not None


def test_a_candidate_that_was_revoked_before_the_end_is_not_chosen_and_stays_revoked(
    scene: Scene,
) -> None:
    node = Answering(scene.farm, "node-a", needed=0)
    searching = Searching.begun(scene)
    searching.step()
    searching.work(node)
    revoke(scene)
    made = scene.count(Artifact)
    row = searching.run(node)
    assert (row.state, row.chosen) == (SearchState.FAILED, None)
    with scene.farm.database.transaction() as session:
        states = session.scalars(
            select(Artifact.state).where(Artifact.tenant_id == scene.tenant_id)
        ).all()
    assert states == [ArtifactState.REVOKED] * made
