"""A twin that cannot be had is nobody's failure: the build goes on, and says what it lacks."""

from __future__ import annotations

import pytest

from enginefarm.errors import Failure
from enginefarm.report import BuildReport
from enginefarm.state import ArtifactState, Blame, BuildState, JobState, Stage
from enginefarm.verdict_report import PrecisionVerdict
from tasks.cancel import cancel
from tasks.messages import NodeDescription
from tests.integration.tasks.fake_node import FakeNode, backend
from tests.integration.tasks.scene import Scene
from tests.integration.tasks.test_precisions import compiler, int8
from tests.integration.tasks.test_twins import GPU, TWIN_OF_CPU, judged, made, whole


@pytest.mark.parametrize("stage", sorted(TWIN_OF_CPU))
def test_a_twin_that_cannot_be_built_fails_no_build_and_leaves_it_without_a_verdict(
    scene: Scene, node: FakeNode, stage: Stage
) -> None:
    build_id = scene.submit(**int8(scene))
    for earlier in (Stage.CALIBRATE, Stage.CHECK, Stage.COMPILE):
        scene.do(node, build_id, earlier)
    for earlier in sorted(TWIN_OF_CPU, key=list(Stage).index):
        if earlier is stage:
            break
        work = node.take(scene.twin(build_id)[earlier])
        node.tell(work, node.done(work))
        scene.settle()
    node.fail(node.take(scene.twin(build_id)[stage]), "engine_too_large", Blame.PERSON)
    assert scene.job(build_id, Stage.BENCHMARK).state is JobState.QUEUED
    work = node.take(scene.job(build_id, Stage.BENCHMARK))
    assert "twin" not in work.recipe
    node.tell(work, node.done(work))
    scene.settle()
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED
    told = judged(scene, build_id)
    assert told.verdict is None
    assert "engine_too_large" in told.reason
    assert told.twin is not None
    assert told.twin.engine is None


def test_an_engine_that_cannot_be_built_costs_no_twin(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit(**int8(scene))
    for stage in (Stage.CALIBRATE, Stage.CHECK):
        scene.do(node, build_id, stage)
    node.fail(node.take(scene.job(build_id, Stage.COMPILE)), "parser_failed", Blame.PERSON)
    assert scene.state(build_id) is BuildState.FAILED
    assert {row.state for row in scene.twin(build_id).values()} == {JobState.CANCELLED}
    assert {row.attempt for row in scene.twin(build_id).values()} == {0}


def test_where_nothing_can_be_run_there_is_no_twin_and_the_model_file_decides_what_it_can(
    scene: Scene, node: FakeNode
) -> None:
    rtx = compiler(scene)
    asked = int8(scene)
    build_id = scene.submit(GPU, **asked)
    assert scene.twin(build_id, GPU) == {}
    scene.do(rtx, build_id, Stage.REPAIR, GPU)
    scene.do(node, build_id, Stage.CALIBRATE, GPU)
    scene.run(rtx, build_id, GPU)
    scene.publish()
    told = judged(scene, build_id, GPU)
    assert told.verdict is None
    assert "no live node has a sm_89 device" in told.reason
    assert told.floor is not None
    assert (told.floor.of, told.floor.value) == ("model file", 0.998)
    assert made(scene, build_id, GPU).state is ArtifactState.PUBLISHED

    asked["precision"] |= {"min_cosine": 0.9985}
    other = scene.submit(GPU, **asked)
    scene.publish()
    assert judged(scene, other, GPU).verdict is PrecisionVerdict.REGRESSION
    assert made(scene, other, GPU).state is ArtifactState.QUARANTINED


def test_a_gate_on_the_model_file_is_judged_where_no_engine_can_be_run(
    scene: Scene, node: FakeNode
) -> None:
    rtx = compiler(scene)
    gates = [{"metric": "model.cosine", "at_least": 0.999}]
    build_id = scene.submit(GPU, gates=gates, **int8(scene))
    scene.do(rtx, build_id, Stage.REPAIR, GPU)
    scene.do(node, build_id, Stage.CALIBRATE, GPU)
    scene.run(rtx, build_id, GPU)
    scene.publish()
    failure = scene.failure(scene.job(build_id, Stage.PUBLISH, GPU))
    assert failure.code == "gate_not_met"
    assert "model.cosine >= 0.999: 0.998, missed by 0.001" in failure.why


def test_a_node_of_the_version_before_that_measures_alone_leaves_no_verdict(
    scene: Scene, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeNode, "beside", lambda _self, _work: {})
    build_id = whole(scene, node, **int8(scene))
    told = judged(scene, build_id)
    assert (told.verdict, told.speed) == (None, [])
    assert "knows no twins" in told.reason
    assert scene.state(build_id) is BuildState.SUCCEEDED


def test_a_cancelled_build_starts_nothing_after_its_twin(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit(**int8(scene))
    for stage in (Stage.CALIBRATE, Stage.CHECK, Stage.COMPILE):
        scene.do(node, build_id, stage)
    work = node.take(scene.twin(build_id)[Stage.REPAIR])
    cancel(scene.farm, scene.tenant_id, build_id)
    node.end(work, JobState.CANCELLED)
    assert {row.state for row in scene.twin(build_id).values()} == {JobState.CANCELLED}
    assert scene.job(build_id, Stage.BENCHMARK).state is JobState.CANCELLED


class _Castless(FakeNode):
    """A node of an operator who keeps casts off it."""

    def described(self) -> NodeDescription:
        told = super().described()
        stages = [stage for stage in told.stages if stage is not Stage.CAST]
        return told.model_copy(update={"stages": stages})


def test_where_nobody_casts_the_twin_is_the_model_as_it_came(scene: Scene) -> None:
    tools = [backend("1.7", name="tensorrt-rtx", arch="sm_89"), backend()]
    node = _Castless(scene.farm, "node-gpu", tools)
    build_id = scene.submit(GPU, **int8(scene))
    assert set(scene.twin(build_id, GPU)) == TWIN_OF_CPU
    scene.run(node, build_id, GPU)
    scene.publish()
    told = judged(scene, build_id, GPU)
    assert told.twin is not None
    assert "no live node took the stage cast" in told.twin.why


def test_a_build_without_a_precision_has_no_twin_and_no_verdict(
    scene: Scene, node: FakeNode
) -> None:
    build_id = whole(scene, node)
    assert scene.twin(build_id) == {}
    report = BuildReport.model_validate(made(scene, build_id).report)
    assert report.precision_verdict is None


def test_an_engine_lost_from_the_bucket_is_the_twins_too(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit(**int8(scene))
    for stage in (Stage.CALIBRATE, Stage.CHECK, Stage.COMPILE):
        scene.do(node, build_id, stage)
    scene.run_twin(node, build_id)
    work = node.take(scene.job(build_id, Stage.BENCHMARK))
    twin = next(file for file in work.inputs if file.role == "twin")
    scene.bucket.remove(twin.digest)
    failure = Failure(code="input_unavailable", blame=Blame.NODE, message="It does not come.")
    message = node.done(work).model_copy(update={"state": JobState.FAILED, "failure": failure})
    node.tell(work, message)
    plain = scene.submit()
    assert scene.job(plain, Stage.COMPILE).cached_from is None
