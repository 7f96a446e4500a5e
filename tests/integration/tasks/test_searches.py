"""A search is rows: it goes on where it was left, and its candidates are builds like any other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from enginefarm.errors import Conflict, InvalidRequest, NotFound, NotServed
from enginefarm.search import SearchState
from enginefarm.search_views import Outcome
from enginefarm.state import ArtifactState, Blame, BuildState, JobState, Stage
from storage.database import now
from storage.models import Search
from tasks.farm import Farm
from tasks.search import advance
from tests.integration.tasks.fake_node import FakeNode, backend
from tests.integration.tasks.scene import Scene
from tests.integration.tasks.searching import Answering, Searching

GPU = "tensorrt-rtx@sm_89"


@pytest.fixture
def node(farm: Farm) -> Answering:
    return Answering(farm, "node-a")


def outcomes(searching: Searching) -> list[Outcome]:
    return [Outcome.model_validate(row.outcome) for row in searching.candidates() if row.outcome]


def kept(searching: Searching) -> list[int]:
    return [len(row.precision["exclude"]) for row in searching.candidates()]


def test_a_search_finds_the_fewest_layers_that_must_stay_and_chooses_and_tells_what_missed(
    scene: Scene, node: Answering
) -> None:
    searching = Searching.begun(scene)
    row = searching.run(node)
    assert row.state is SearchState.SUCCEEDED, row.verdict
    assert sorted(set(kept(searching))) == [0, 1, 2, 3, 4, 7]
    chosen = searching.candidates()[(row.chosen or 0) - 1]
    told = Outcome.model_validate(chosen.outcome)
    assert len(chosen.precision["exclude"]) == 3
    assert told.met
    assert told.artifact_state is ArtifactState.PUBLISHED
    assert told.artifact is not None
    assert scene.verified(told.artifact).manifest.digest == told.artifact
    assert f"Candidate {row.chosen}" in row.verdict
    assert row.finished_at is not None
    missed = [row for row in outcomes(searching) if not row.met]
    assert missed
    assert {row.artifact_state for row in missed} == {ArtifactState.QUARANTINED}
    assert all(row.verdicts[0].missed_by for row in missed)


def test_a_no_is_an_honest_one(scene: Scene, node: Answering) -> None:
    gate = {"metric": "latency_p99_ms", "at_most": 0.001}
    row = Searching.begun(scene, require=[gate], space={"kinds": ["fp16"]}).run(node)
    assert (row.state, row.chosen) == (SearchState.UNMET, None)
    assert "No candidate in the space reaches" in row.verdict
    assert "its latency_p99_ms is 2, at most 0.001" in row.verdict


def test_what_candidates_share_is_built_once(scene: Scene, node: Answering) -> None:
    searching = Searching.begun(scene, budget={"at_once": 16})
    searching.step()
    repairs = [scene.job(build, Stage.REPAIR) for build in searching.builds()]
    assert len(repairs) > 2
    labels = [scene.build(build).labels for build in searching.builds()]
    assert labels == [{"search": searching.id}] * len(labels)
    # One for the model as it came, one for all that get another precision.
    assert sum(row.joined_to is None for row in repairs) == 2


def test_a_step_that_was_not_committed_is_taken_again_and_nothing_is_tried_twice(
    scene: Scene, node: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    searching = Searching.begun(scene)

    def dies(_: str) -> None:
        raise KeyboardInterrupt

    for _ in range(3):
        with monkeypatch.context() as patched:
            patched.setattr(advance, "reach", dies)
            with pytest.raises(KeyboardInterrupt):
                searching.step()
        before = searching.builds()
        searching.step()
        searching.step()
        assert searching.builds()[: len(before)] == before
        searching.work(node)
    assert searching.run(node).state is SearchState.SUCCEEDED
    numbers = [row.number for row in searching.candidates()]
    assert numbers == list(range(1, len(numbers) + 1))
    every = [str(row.precision) for row in searching.candidates()]
    assert len(every) == len(set(every))


def test_cancelling_a_search_cancels_its_candidates_and_no_other_build(
    scene: Scene, node: Answering
) -> None:
    other = scene.submit()
    searching = Searching.begun(scene)
    searching.step()
    advance.cancel(scene.farm, scene.tenant_id, searching.id)
    assert {scene.state(build) for build in searching.builds()} == {BuildState.CANCELLED}
    assert scene.state(other) is not BuildState.CANCELLED
    before = searching.builds()
    searching.step()
    assert searching.row().state is SearchState.CANCELLED
    assert searching.builds() == before
    assert scene.job(other, Stage.REPAIR).state is JobState.QUEUED


def test_a_candidate_that_fails_is_told_and_ends_no_search(scene: Scene) -> None:
    node = Answering(scene.farm, "node-a", needed=0)
    searching = Searching.begun(scene)
    searching.step()
    fails = next(row.build_id for row in searching.candidates() if "fp16" in str(row.precision))
    assert fails is not None
    for job in searching.queued():
        work = node.take(job)
        node.tell(work, node.done(work))
    scene.settle()
    cast = scene.job(fails, Stage.CAST)
    assert node.fail(node.take(cast), "precision_not_finite", Blame.PERSON) is JobState.FAILED
    assert searching.run(node).state is SearchState.SUCCEEDED
    codes = [row.failure.code for row in outcomes(searching) if row.failure is not None]
    assert codes == ["precision_not_finite"]


def test_when_its_time_is_over_it_chooses_among_what_there_is(
    scene: Scene, node: Answering
) -> None:
    searching = Searching.begun(scene, budget={"seconds": 60})
    searching.step()
    with scene.farm.database.transaction() as session:
        long_ago = now() - timedelta(seconds=61)
        session.execute(update(Search).where(Search.id == searching.id).values(created_at=long_ago))
    row = searching.run(node)
    assert len(searching.candidates()) == 3
    assert row.state is SearchState.SUCCEEDED
    assert "its time was over" in row.verdict


def test_where_no_engine_can_be_run_the_model_file_is_judged_and_size_decides(
    scene: Scene, node: Answering
) -> None:
    rtx = backend(name="tensorrt-rtx", arch="sm_89", measures=False)
    both = Answering(scene.farm, "node-rtx", [backend(), rtx])
    build = {"model": scene.model, "targets": [GPU]}
    slow = {"metric": "latency_p99_ms", "at_most": 5}
    searching = Searching.begun(
        scene, build=build, require=[{"metric": "cosine", "at_least": 0.99}, slow], prefer=None
    )
    row = searching.run(both)
    assert row.state is SearchState.SUCCEEDED
    assert any("latency_p99_ms <= 5 cannot be judged here" in note for note in row.notes)
    told = [row for row in outcomes(searching) if row.artifact is not None]
    assert {row.accuracy_of for row in told} == {"original", "model-file"}
    assert "the engine's size" in row.verdict


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"space": {"kinds": ["as-is"]}}, "search_empty"),
        ({"require": [{"metric": "cosine", "at_least": 1.5}]}, "gate_bounds"),
        ({"space": {"kinds": ["int8"]}, "calibration": None}, "calibration_missing"),
        (
            {"require": [{"metric": "cosine", "against": "sha256:" + "1" * 64, "worse_by": 1}]},
            "search_requirement",
        ),
    ],
)
def test_what_could_never_be_is_refused_before_anything_is_tried(
    scene: Scene, node: FakeNode, more: dict[str, Any], code: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Searching.begun(scene, **more)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("build", "code"),
    [
        ({"targets": ["onnxruntime@cpu", GPU]}, "search_target"),
        ({"precision": {"kind": "fp16"}}, "search_precision"),
        ({"until": "check"}, "search_precision"),
        ({"gates": [{"metric": "cosine", "at_least": n / 100} for n in range(32)]}, "search_gates"),
    ],
)
def test_a_build_that_leaves_nothing_to_search_is_refused(
    scene: Scene, node: FakeNode, build: dict[str, Any], code: str
) -> None:
    body = {"model": scene.model, "targets": ["onnxruntime@cpu"]} | build
    with pytest.raises(InvalidRequest) as refused:
        Searching.begun(scene, build=body)
    assert refused.value.code == code


def test_a_model_that_is_not_there_and_a_target_that_nobody_serves_are_told_at_once(
    scene: Scene, node: FakeNode
) -> None:
    nobody = {"model": "sha256:" + "0" * 64, "targets": ["onnxruntime@cpu"]}
    with pytest.raises(NotFound):
        Searching.begun(scene, build=nobody)
    with pytest.raises(NotServed):
        Searching.begun(scene, build={"model": scene.model, "targets": [GPU]})


def test_one_key_begins_one_search(scene: Scene, node: FakeNode) -> None:
    first = Searching.begun(scene, key="k")
    assert Searching.begun(scene, key="k").id == first.id
    with pytest.raises(Conflict):
        Searching.begun(scene, key="k", budget={"candidates": 3})


def test_a_search_is_its_tenants_alone(scene: Scene, node: FakeNode) -> None:
    searching = Searching.begun(scene)
    stranger = Scene.on(scene.farm, "globex")
    with pytest.raises(NotFound):
        advance.cancel(stranger.farm, stranger.tenant_id, searching.id)
    assert searching.row().state is SearchState.RUNNING
