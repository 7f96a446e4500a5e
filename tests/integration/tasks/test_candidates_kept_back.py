"""Of a search one artifact is to be deployed: the others never go out, and go before long."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from api import artifact_views
from enginefarm.search import SearchState
from enginefarm.search_views import Outcome
from enginefarm.state import ArtifactState, BuildState, JobState, Stage
from storage.models import Artifact
from storage.retention import Rule, Terms
from tasks.search import advance
from tests.integration.tasks.ageing import let_pass
from tests.integration.tasks.fake_node import backend
from tests.integration.tasks.kept import DAY, has, keep, outputs, sweep
from tests.integration.tasks.scene import Scene
from tests.integration.tasks.searching import Answering, Searching

SHORT = Terms({Rule.CANDIDATES: 7, Rule.QUARANTINED: 90, Rule.RESULTS: 30})
INT8 = {"kind": "int8", "method": "minmax"}

NO_FASTER = "not shown to be faster than its twin"


def made(scene: Scene) -> dict[str, Artifact]:
    with scene.farm.database.transaction() as session:
        rows = session.scalars(select(Artifact).where(Artifact.tenant_id == scene.tenant_id))
        return {row.build_id: row for row in rows}


def out(scene: Scene) -> list[str]:
    return [row.digest for row in made(scene).values() if row.state is ArtifactState.PUBLISHED]


def build_of(searching: Searching, kind: str) -> str:
    rows = [row for row in searching.candidates() if row.precision["kind"] == kind]
    assert rows[0].build_id is not None
    return rows[0].build_id


def test_none_goes_out_before_the_end_and_then_only_the_one_that_is_chosen(scene: Scene) -> None:
    node = Answering(scene.farm, "node-a", needed=0)
    searching = Searching.begun(scene)
    searching.step()
    searching.work(node)
    assert {scene.state(build) for build in searching.builds()} == {BuildState.SUCCEEDED}
    assert {row.search_id for row in made(scene).values()} == {searching.id}
    assert out(scene) == []

    row = searching.run(node)
    told = [Outcome.model_validate(each.outcome) for each in searching.candidates()]
    assert all(each.met for each in told)
    assert row.chosen is not None
    assert out(scene) == [told[row.chosen - 1].artifact]
    states = [each.artifact_state for each in told]
    assert states.count(ArtifactState.PUBLISHED) == 1
    assert states[row.chosen - 1] is ArtifactState.PUBLISHED


def test_where_none_is_chosen_none_goes_out(scene: Scene) -> None:
    node = Answering(scene.farm, "node-a", needed=0)
    cancelled = Searching.begun(scene)
    cancelled.step()
    cancelled.work(node)
    advance.cancel(scene.farm, scene.tenant_id, cancelled.id)
    unmet = Searching.begun(scene, require=[{"metric": "engine_bytes", "at_most": 1}])
    assert unmet.run(node).state is SearchState.UNMET
    assert out(scene) == []


def test_who_asks_for_what_was_not_chosen_gets_it_from_the_cache_and_it_goes_out(
    scene: Scene,
) -> None:
    node = Answering(scene.farm, "node-a", needed=0)
    searching = Searching.begun(scene)
    searching.run(node)
    loser = scene.job(build_of(searching, "fp16"), Stage.PUBLISH).result or {}
    held_out = searching.row().spec["build"]["evaluation"]
    asked = next(row.precision for row in searching.candidates() if row.precision["kind"] == "fp16")
    build = scene.submit(precision=asked, evaluation=held_out)
    scene.publish()
    jobs = scene.jobs(build)
    told = {str(stage): row.cached_from for stage, row in jobs.items()}
    assert None not in {row for stage, row in told.items() if stage != Stage.PUBLISH}, told
    assert jobs[Stage.PUBLISH].state is JobState.SUCCEEDED
    digest = (jobs[Stage.PUBLISH].result or {})["artifact"]
    assert digest in out(scene)
    assert loser["artifact"] not in out(scene)
    assert scene.verified(digest).digest == digest


def test_where_no_engine_is_run_what_is_required_of_accuracy_is_a_gate_on_the_model_file(
    scene: Scene,
) -> None:
    rtx = backend(name="tensorrt-rtx", arch="sm_89", measures=False)
    node = Answering(scene.farm, "node-rtx", [backend(), rtx])
    build = {"model": scene.model, "targets": ["tensorrt-rtx@sm_89"]}
    near = [{"metric": "cosine", "at_least": 0.999}]
    searching = Searching.begun(scene, build=build, require=near, prefer=None)
    row = searching.run(node)
    assert row.chosen == 1
    missed = scene.jobs(build_of(searching, "int8"), "tensorrt-rtx@sm_89")[Stage.PUBLISH]
    failure = scene.failure(missed)
    assert failure.code == "gate_not_met"
    assert "model.cosine >= 0.999: 0.998" in (failure.why or "")


def test_what_was_not_chosen_goes_after_its_term_and_the_chosen_one_stays(scene: Scene) -> None:
    node = Answering(scene.farm, "node-a", needed=0)
    searching = Searching.begun(scene)
    searching.step()
    searching.work(node)
    let_pass(scene.farm, 8 * DAY)
    keep(scene.farm, SHORT)
    sweep(scene.farm)
    lost = build_of(searching, "as-is")
    (engine,) = outputs(scene, lost)
    assert has(scene, engine), "the search may choose it still"

    row = searching.run(node)
    chosen = searching.candidates()[(row.chosen or 0) - 1].build_id or ""
    file = (scene.job(build_of(searching, "fp16"), Stage.CAST).result or {})["outputs"][0]["digest"]
    let_pass(scene.farm, 8 * DAY)
    keep(scene.farm, SHORT)
    sweep(scene.farm)
    (kept,) = outputs(scene, chosen)
    assert lost != chosen
    assert not has(scene, engine)
    assert not has(scene, file)
    assert has(scene, kept)
    gone = made(scene)[lost]
    assert gone.engine_expired_at is not None
    assert has(scene, gone.digest), "manifest and report stay"
    digest = made(scene)[chosen].digest
    for layer in scene.verified(digest).manifest.layers:
        scene.bucket.confirm(layer.digest, layer.size)


def test_an_artifact_says_of_which_search_it_is_a_candidate_and_that_it_was_not_chosen(
    scene: Scene,
) -> None:
    node = Answering(scene.farm, "node-a", needed=0)
    searching = Searching.begun(scene)
    searching.step()
    searching.work(node)
    told = {build: kept_back(scene, searching, row) for build, row in made(scene).items()}
    assert set(told.values()) == {f"a candidate of search {searching.id}, which is not over"}
    row = searching.run(node)
    chosen = searching.candidates()[(row.chosen or 0) - 1].build_id
    for build, artifact in made(scene).items():
        said = kept_back(scene, searching, artifact)
        assert said == (
            None if build == chosen else f"a candidate of search {searching.id}, not chosen"
        )


def kept_back(scene: Scene, searching: Searching, row: Artifact) -> str | None:
    return artifact_views.artifact(row, (), searching.row()).kept_back


def test_none_is_chosen_that_gives_nan_whatever_is_required(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Answering(scene.farm, "node-a", needed=0)
    told = node.facts

    def facts(stage: Stage, size: int) -> dict[str, Any]:
        found = told(stage, size)
        engine: Any = node.work.recipe.get("engine") if node.work is not None else None
        if stage is Stage.BENCHMARK and node.engines.get(engine["digest"]) is not None:
            found["accuracy"]["outputs"][0] |= {"nonfinite_engine": 1, "cosine": 1.0}
        return found

    monkeypatch.setattr(node, "facts", facts)
    searching = Searching.begun(scene)
    row = searching.run(node)
    chosen = next(each for each in searching.candidates() if each.number == row.chosen)
    assert chosen.precision["kind"] == "as-is"
    assert out(scene) == [Outcome.model_validate(chosen.outcome).artifact]


def test_a_candidate_that_is_no_faster_says_so_beside_its_search(scene: Scene) -> None:
    node = Answering(scene.farm, "node-a", needed=0, speedup=0.9)
    searching = Searching.begun(scene, prefer="latency", space={"kinds": ["fp16"]})
    row = searching.run(node)
    assert row.chosen == 1
    assert (
        "No other may go out: candidate 2 meets them, and is not shown to be faster than its twin."
        in row.verdict
    )
    told = Outcome.model_validate(searching.candidates()[1].outcome)
    assert (told.met, told.held_back) == (False, NO_FASTER)
    assert told.engine is not None
    said = kept_back(scene, searching, made(scene)[build_of(searching, "fp16")])
    assert said == f"{NO_FASTER}; a candidate of search {searching.id}, not chosen"
