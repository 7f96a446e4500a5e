"""An engine in another precision goes out only if it is worth it: it is held against its twin."""

from __future__ import annotations

from typing import Any

import pytest

from api import artifact_views
from enginefarm.errors import Failure
from enginefarm.manifest import LABELS, VERDICT, read_manifest
from enginefarm.precision import PrecisionKind
from enginefarm.report import BuildReport
from enginefarm.state import ArtifactState, Blame, BuildState, JobState, Stage
from enginefarm.verdict_report import PrecisionVerdict, VerdictReport
from storage import artifacts
from storage.models import Artifact
from tests.integration.tasks.fake_facts import accuracy, paired_facts
from tests.integration.tasks.fake_node import FakeNode, backend
from tests.integration.tasks.scene import CPU, Scene
from tests.integration.tasks.test_precisions import int8

GPU = "tensorrt-rtx@sm_89"
FP16 = {"kind": "fp16"}
TWIN_OF_CPU = {Stage.REPAIR, Stage.CHECK, Stage.COMPILE}


def made(scene: Scene, build_id: str, target: str = CPU) -> Artifact:
    digest = (scene.job(build_id, Stage.PUBLISH, target).result or {})["artifact"]
    with scene.farm.database.transaction() as session:
        return artifacts.get(session, scene.tenant_id, digest)


def judged(scene: Scene, build_id: str, target: str = CPU) -> VerdictReport:
    told = BuildReport.model_validate(made(scene, build_id, target).report).precision_verdict
    assert told is not None
    return told


def whole(scene: Scene, node: FakeNode, **asked: Any) -> str:  # noqa: ANN401 - fields of a spec
    build_id = scene.submit(**asked)
    scene.run(node, build_id)
    scene.publish()
    return build_id


def measuring(scene: Scene) -> FakeNode:
    """Return a node that builds and runs engines for a GPU."""
    tools = [backend("1.7", name="tensorrt-rtx", arch="sm_89"), backend()]
    return FakeNode(scene.farm, "node-gpu", tools)


def test_a_faster_and_accurate_engine_is_accepted_with_its_numbers_and_goes_out(
    scene: Scene, node: FakeNode
) -> None:
    build_id = whole(scene, node, **int8(scene))
    told = judged(scene, build_id)
    assert told.verdict is PrecisionVerdict.ACCEPT
    assert told.twin is not None
    assert told.twin.precision is PrecisionKind.AS_IS
    assert told.twin.engine is not None
    assert [row.speedup for row in told.speed] == [1.5]
    assert told.floor is not None
    assert (told.floor.of, told.floor.value) == ("engine", node.cosine)
    assert made(scene, build_id).state is ArtifactState.PUBLISHED
    assert scene.state(build_id) is BuildState.SUCCEEDED


def test_what_is_not_faster_is_labelled_and_kept_back_with_a_code_and_by_how_much(
    scene: Scene, node: FakeNode
) -> None:
    node.speedup = 1.01
    build_id = whole(scene, node, **int8(scene))
    row = made(scene, build_id)
    assert row.state is ArtifactState.QUARANTINED
    assert read_manifest(row.manifest).annotations[VERDICT] == "slower"
    failure = scene.failure(scene.job(build_id, Stage.PUBLISH))
    assert (failure.code, failure.blame) == ("precision_slower", Blame.PERSON)
    assert failure.context["speedup"] == 1.01
    assert "1.01 times as fast as the model as it came" in failure.why
    assert artifact_views.artifact(row).kept_back == "not shown to be faster than its twin"
    assert scene.state(build_id) is BuildState.FAILED


def test_a_person_may_say_that_what_is_slower_goes_out_and_it_stays_labelled(
    scene: Scene, node: FakeNode
) -> None:
    node.speedup = 0.5
    build_id = whole(scene, node, **int8(scene, on_slower="publish"))
    row = made(scene, build_id)
    assert row.state is ArtifactState.PUBLISHED
    assert read_manifest(row.manifest).annotations[VERDICT] == "slower"
    assert judged(scene, build_id).held_back is False


def test_what_lost_too_much_is_a_regression_however_fast_it_is(
    scene: Scene, node: FakeNode
) -> None:
    node.cosine = 0.97
    build_id = whole(scene, node, **int8(scene))
    failure = scene.failure(scene.job(build_id, Stage.PUBLISH))
    assert failure.code == "precision_regression"
    assert failure.context["missed_by"] == pytest.approx(0.02)
    assert made(scene, build_id).state is ArtifactState.QUARANTINED
    other = whole(scene, node, **int8(scene, min_cosine=0.96))
    assert judged(scene, other).verdict is PrecisionVerdict.ACCEPT
    assert made(scene, other).state is ArtifactState.PUBLISHED


def test_the_twin_has_the_keys_of_an_ordinary_build_and_takes_what_that_has_made(
    scene: Scene, node: FakeNode
) -> None:
    plain = whole(scene, node)
    build_id = scene.submit(**int8(scene))
    for stage in (Stage.CALIBRATE, Stage.CHECK, Stage.COMPILE):
        scene.do(node, build_id, stage)
    twin = scene.twin(build_id)
    assert set(twin) == TWIN_OF_CPU
    for stage, job in twin.items():
        assert job.state is JobState.SUCCEEDED
        assert job.cached_from == scene.job(plain, stage).id
        assert job.key == scene.job(plain, stage).key


def test_an_ordinary_build_joins_the_twin_of_another_and_both_get_the_engine(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit(**int8(scene))
    for stage in (Stage.CALIBRATE, Stage.CHECK, Stage.COMPILE):
        scene.do(node, build_id, stage)
    plain = scene.submit()
    assert scene.job(plain, Stage.REPAIR).joined_to == scene.twin(build_id)[Stage.REPAIR].id
    scene.run_twin(node, build_id)
    assert scene.job(plain, Stage.COMPILE).cached_from == scene.twin(build_id)[Stage.COMPILE].id
    assert scene.job(plain, Stage.BENCHMARK).state is JobState.QUEUED
    assert scene.job(build_id, Stage.BENCHMARK).state is JobState.QUEUED


def test_on_a_gpu_the_twin_of_int8_is_in_fp16_and_has_the_keys_of_such_a_build(
    scene: Scene,
) -> None:
    node = measuring(scene)
    asked = int8(scene)
    half = scene.submit(GPU, precision=FP16, evaluation=asked["evaluation"])
    scene.run(node, half, GPU)
    build_id = scene.submit(GPU, **asked)
    scene.run(node, build_id, GPU)
    scene.publish()
    twin = scene.twin(build_id, GPU)
    assert list(twin) == [Stage.REPAIR, Stage.CAST, Stage.CHECK, Stage.COMPILE]
    assert {stage: row.cached_from for stage, row in twin.items()} == {
        stage: scene.job(half, stage, GPU).id for stage in twin
    }
    told = judged(scene, build_id, GPU)
    assert told.twin is not None
    assert told.twin.precision is PrecisionKind.FP16


def test_where_the_model_cannot_be_cast_the_twin_is_the_model_as_it_came(scene: Scene) -> None:
    node = measuring(scene)
    build_id = scene.submit(GPU, **int8(scene))
    for stage in (Stage.CALIBRATE, Stage.CHECK, Stage.COMPILE):
        scene.do(node, build_id, stage, GPU)
    cast = node.take(scene.twin(build_id, GPU)[Stage.CAST])
    node.fail(cast, "precision_without_effect", Blame.PERSON)
    assert scene.state(build_id) is BuildState.RUNNING
    work = node.take(scene.twin(build_id, GPU)[Stage.CHECK])
    repaired: Any = work.recipe["model"]
    assert repaired["digest"] == scene.model
    node.tell(work, node.done(work))
    scene.settle()
    scene.run(node, build_id, GPU)
    scene.publish()
    told = judged(scene, build_id, GPU)
    assert told.verdict is PrecisionVerdict.ACCEPT
    assert told.twin is not None
    assert told.twin.precision is PrecisionKind.AS_IS
    assert "precision_without_effect" in told.twin.why


def test_what_leaves_open_which_is_faster_is_measured_again(
    scene: Scene, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsure = paired_facts(1.5, [])
    unsure["comparison"][0]["ratios"] = [0.977] * 5 + [1.59] * 5 + [2.33] * 5
    monkeypatch.setattr(node, "beside", lambda _: unsure)
    asked = int8(scene)
    first = whole(scene, node, **asked)
    assert "not shown to be faster: 0.977 to 2.33" in judged(scene, first).reason
    assert made(scene, first).state is ArtifactState.QUARANTINED
    monkeypatch.undo()
    again = whole(scene, node, **asked)
    assert scene.job(again, Stage.COMPILE).cached_from is not None
    assert scene.job(again, Stage.BENCHMARK).cached_from is None
    assert made(scene, again).state is ArtifactState.PUBLISHED


def test_an_engine_of_nan_does_not_go_out_unless_the_build_says_so(
    scene: Scene, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its cosine, with a precision or without."""
    bad = accuracy(0.9999)
    bad["outputs"][0] |= {"elements": 32, "nonfinite_engine": 32}
    told = node.facts
    there = {Stage.BENCHMARK: {"accuracy": bad}}
    monkeypatch.setattr(node, "facts", lambda at, size: told(at, size) | there.get(at, {}))
    plain, precise = whole(scene, node), whole(scene, node, **int8(scene))
    codes = [scene.failure(scene.job(row, Stage.PUBLISH)).code for row in (plain, precise)]
    assert codes == ["engine_not_finite", "precision_regression"]
    assert read_manifest(made(scene, plain).manifest).annotations[LABELS] == "engine_not_finite"
    for build_id in (plain, precise):
        assert made(scene, build_id).state is ArtifactState.QUARANTINED
    out = whole(scene, node, options={"benchmark": {"not_finite": "publish"}})
    assert scene.job(out, Stage.BENCHMARK).cached_from is not None
    assert made(scene, out).state is ArtifactState.PUBLISHED


@pytest.mark.parametrize(
    "lie",
    [
        {"comparison": [paired_facts(1.0, [])["comparison"][0] | {"ratios": [1.7e308] * 15}]},
        {"accuracy": accuracy(0.9999) | {"outputs": []}},
        {"latency": []},
    ],
)
def test_what_cannot_be_or_is_not_all_that_was_asked_is_the_nodes_fault_and_is_not_kept(
    scene: Scene, node: FakeNode, lie: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = paired_facts(1.5, []) | lie
    monkeypatch.setattr(node, "beside", lambda work: told if "twin" in work.recipe else {})
    build_id = scene.submit(**int8(scene))
    scene.run(node, build_id)
    job = scene.job(build_id, Stage.BENCHMARK)
    assert job.state is JobState.QUEUED, "it is tried again"
    failed = Failure.model_validate(scene.attempts(job)[0].failure)
    assert (failed.code, failed.blame) == ("result_invalid", Blame.NODE)
    monkeypatch.undo()
    scene.hurry(build_id)
    scene.run(node, build_id)
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED
