"""Profiles in a search: the model is prepared once, and each engine is built for its own."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from enginefarm.errors import InvalidProfile, InvalidRequest
from enginefarm.search import SearchState
from enginefarm.search_views import Outcome
from enginefarm.state import JobState, Stage
from storage import artifacts
from storage.models import Job
from tests.integration.tasks.scene import CPU, INTERFACE, TENSOR, Scene
from tests.integration.tasks.searching import Answering, Searching

DYNAMIC = INTERFACE | {"inputs": [TENSOR | {"shape": ["batch", 4]}]}
USUAL = {"x": {"min": [1, 4], "opt": [2, 4], "max": [4, 4]}}
SMALL = {"x": {"min": [2, 4], "opt": [2, 4], "max": [2, 4]}}
WIDE = {"x": {"min": [1, 4], "opt": [8, 4], "max": [16, 4]}}


class ByProfile(Answering):
    """A node whose engines are smaller for one size, and larger for many."""

    def weight(self, asked: Any) -> int:  # noqa: ANN401 - a recipe
        assert self.work is not None
        profiles: Any = self.work.recipe["profiles"]
        return super().weight(asked) + 10 * int(profiles[0]["x"]["max"][0])


def begun(scene: Scene, **profiles: Any) -> Searching:  # noqa: ANN401 - short
    build = {"model": scene.other(DYNAMIC), "targets": [CPU], "profiles": [USUAL]}
    space = {"kinds": ["fp16"], "profiles": profiles}
    return Searching.begun(scene, build=build, space=space, calibration=None)


def test_the_best_are_built_for_each_profile_and_prepared_once(scene: Scene) -> None:
    node = ByProfile(scene.farm, "node-a")
    searching = begun(scene, small=[SMALL], wide=[WIDE])
    row = searching.run(node)
    assert row.state is SearchState.SUCCEEDED, row.verdict
    told = [(each.precision["kind"], each.profile) for each in searching.candidates()]
    assert told == [
        *(("as-is", None), ("fp16", None), ("fp16", "small"), ("fp16", "wide")),
        *(("as-is", "small"), ("as-is", "wide")),
    ]
    assert row.chosen == 3
    assert "(fp16, profile small)" in row.verdict
    made = {stage: done(scene, stage) for stage in (Stage.CAST, Stage.COMPILE, Stage.BENCHMARK)}
    assert len(made[Stage.CAST]) == 1
    assert len(made[Stage.COMPILE]) == 6
    recipes = [job.recipe or {} for job in made[Stage.BENCHMARK]]
    assert {str(each["options"].get("shapes")) for each in recipes} == {"None", "[{'x': [2, 4]}]"}
    chosen = Outcome.model_validate(searching.candidates()[2].outcome)
    assert chosen.artifact is not None
    assert scene.verified(chosen.artifact).digest == chosen.artifact
    with scene.farm.database.transaction() as session:
        report = artifacts.get(session, scene.tenant_id, chosen.artifact).report or {}
    assert report["recipe"]["profiles"] == [SMALL]


def done(scene: Scene, stage: Stage) -> list[Job]:
    """Return the jobs of a stage that a node has really done."""
    with scene.farm.database.transaction() as session:
        mine = session.scalars(
            select(Job).where(Job.tenant_id == scene.tenant_id, Job.stage == stage)
        )
        return [row for row in mine if row.state is JobState.SUCCEEDED and row.cached_from is None]


def test_profiles_that_do_not_fit_are_refused_before_anything_is_tried(scene: Scene) -> None:
    Answering(scene.farm, "node-a")
    with pytest.raises(InvalidRequest) as narrow:
        begun(scene, one=[{"x": {"min": [1, 4], "opt": [1, 4], "max": [1, 4]}}])
    assert narrow.value.code == "search_profile"
    with pytest.raises(InvalidProfile) as wrong:
        begun(scene, wrong=[{"x": {"min": [1, 4], "opt": [2, 4], "max": [4, 5]}}])
    assert wrong.value.code == "profile_static_mismatch"
