"""A model that a stage has written is what the next one gets; the original stays the measure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from enginefarm.digest import canonical_json, digest_of
from enginefarm.errors import InvalidProfile, InvalidRequest, NotServed
from enginefarm.manifest import CONFIG_TYPE
from enginefarm.report import BuildReport
from enginefarm.state import PLAIN_STAGES, Blame, BuildState, JobState, Stage
from storage import artifacts
from tasks.messages import NodeDescription
from tasks.routing import NODE_STAGES
from tests.integration.tasks.fake_node import FakeNode, backend
from tests.integration.tasks.scene import CPU, Scene

GPU = "onnxruntime@sm_89"
REPAIRED = b"the model as a pass has written it"
SHAPES = {"min": [1, 4], "opt": [1, 4], "max": [1, 4]}
FIX = {"repair": {"fix_inputs": {"x": {"value": 0.5}}}}


class OlderNode(FakeNode):
    """A node of the version before: it knows no repairs."""

    def described(self) -> NodeDescription:
        stages = [stage for stage in NODE_STAGES if stage is not Stage.REPAIR]
        return super().described().model_copy(update={"stages": stages})


def repaired_model() -> dict[str, Any]:
    file = {"digest": digest_of(REPAIRED), "name": "model.onnx", "size": len(REPAIRED)}
    return {"digest": digest_of(canonical_json({"files": [file]})), "files": [file]}


def published(scene: Scene, build_id: str, target: str = CPU) -> tuple[BuildReport, dict[str, Any]]:
    """Return the report and the config of what a build has published."""
    digest = (scene.job(build_id, Stage.PUBLISH, target).result or {})["artifact"]
    verified = scene.verified(digest)
    assert verified.manifest.config.media_type == CONFIG_TYPE
    config = json.loads(scene.farm.objects.read(verified.manifest.config.digest, 1 << 20))
    with scene.farm.database.transaction() as session:
        row = artifacts.get(session, scene.tenant_id, digest)
        return BuildReport.model_validate(row.report), config


def test_the_next_stages_get_the_model_that_was_written_and_the_benchmark_gets_the_original(
    scene: Scene, node: FakeNode
) -> None:
    node.repaired = REPAIRED
    build_id = scene.submit()
    scene.do(node, build_id, Stage.REPAIR)
    for stage in (Stage.CHECK, Stage.COMPILE):
        work = node.take(scene.job(build_id, stage))
        assert work.recipe["model"] == repaired_model()
        assert [file.digest for file in work.inputs] == [digest_of(REPAIRED)]
        node.tell(work, node.done(work))
        scene.settle()
    measured = node.take(scene.job(build_id, Stage.BENCHMARK))
    assert measured.recipe["model"]["digest"] == scene.model  # type: ignore[index,call-overload]
    assert digest_of(REPAIRED) not in {file.digest for file in measured.inputs}


def test_without_a_written_model_every_stage_works_on_the_original(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    scene.run(node, build_id)
    scene.publish()
    for stage in (Stage.REPAIR, Stage.CHECK, Stage.COMPILE, Stage.BENCHMARK):
        assert (scene.job(build_id, stage).recipe or {})["model"]["digest"] == scene.model
    report, config = published(scene, build_id)
    assert report.repair is not None
    assert report.repaired_model is None
    assert "repaired_model" not in config


def test_report_config_and_provenance_tell_of_the_repair(scene: Scene, node: FakeNode) -> None:
    node.repaired = REPAIRED
    build_id = scene.submit()
    scene.run(node, build_id)
    scene.publish()

    report, config = published(scene, build_id)
    assert report.repair is not None
    assert [row.name for row in report.repair.applied] == ["unique-dimensions"]
    assert report.repaired_model == config["repaired_model"] == repaired_model()["digest"]
    assert report.model == config["model"] == scene.model
    verified = scene.verified((scene.job(build_id, Stage.PUBLISH).result or {})["artifact"])
    predicate = json.loads(verified.statement.payload)["predicate"]
    definition = predicate["buildDefinition"]
    sources = definition["resolvedDependencies"]
    named = {row["name"]: row["digest"] for row in sources if "name" in row}
    sha256 = digest_of(REPAIRED).removeprefix("sha256:")
    assert named["repaired/model.onnx"] == {"sha256": sha256}
    assert predicate["runDetails"]["byproducts"][0]["digest"] == {"sha256": sha256}
    assert "passes" in definition["internalParameters"]


def test_targets_of_one_backend_share_the_repair_and_each_is_built_from_it(
    scene: Scene, node: FakeNode
) -> None:
    node.repaired = REPAIRED
    other = FakeNode(scene.farm, "node-gpu", [backend(arch="sm_89")], engine=b"another engine")
    build_id = scene.submit(CPU, GPU)
    leader, follower = scene.job(build_id, Stage.REPAIR), scene.job(build_id, Stage.REPAIR, GPU)
    assert leader.key == follower.key
    assert (leader.state, follower.state) == (JobState.QUEUED, JobState.WAITING)
    assert follower.joined_to == leader.id

    scene.do(node, build_id, Stage.REPAIR)
    follower = scene.job(build_id, Stage.REPAIR, GPU)
    assert (follower.state, follower.cached_from) == (JobState.SUCCEEDED, leader.id)
    scene.run(node, build_id)
    scene.run(other, build_id, GPU)
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED
    for target in (CPU, GPU):
        compiled = scene.job(build_id, Stage.COMPILE, target)
        assert (compiled.recipe or {})["model"] == repaired_model()


def test_a_second_build_takes_the_repaired_model_from_the_cache(
    scene: Scene, node: FakeNode
) -> None:
    node.repaired = REPAIRED
    first = scene.submit()
    scene.run(node, first)
    scene.publish()
    second = scene.submit(labels={"again": "yes"})
    assert scene.states(second) == [JobState.SUCCEEDED] * len(PLAIN_STAGES)
    assert scene.job(second, Stage.REPAIR).cached_from == scene.job(first, Stage.REPAIR).id
    other = scene.submit(seed=3)
    assert scene.job(other, Stage.COMPILE).cached_from == scene.job(first, Stage.COMPILE).id


def test_a_failed_repair_fails_every_target_that_shares_it(scene: Scene, node: FakeNode) -> None:
    FakeNode(scene.farm, "node-gpu", [backend(arch="sm_89")])
    build_id = scene.submit(CPU, GPU)
    node.fail(node.take(scene.job(build_id, Stage.REPAIR)), "fix_value", Blame.PERSON)
    assert scene.failure(scene.job(build_id, Stage.REPAIR, GPU)).code == "fix_value"
    assert scene.state(build_id) is BuildState.FAILED


def test_a_cancelled_build_stops_its_shared_repair(scene: Scene, node: FakeNode) -> None:
    from tasks.cancel import cancel

    FakeNode(scene.farm, "node-gpu", [backend(arch="sm_89")])
    build_id = scene.submit(CPU, GPU)
    work = node.take(scene.job(build_id, Stage.REPAIR))
    cancel(scene.farm, scene.tenant_id, build_id)
    assert node.beat(work).cancel is True
    node.end(work, JobState.CANCELLED)
    for target in (CPU, GPU):
        assert scene.states(build_id, target) == [JobState.CANCELLED] * len(PLAIN_STAGES)


def test_a_build_that_wants_no_repair_has_no_such_job(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit(options={"repair": {"mode": "none"}})
    assert Stage.REPAIR not in scene.jobs(build_id)
    scene.run(node, build_id)
    scene.publish()
    report, _ = published(scene, build_id)
    assert (report.repair, report.repair_reason) == (None, "the build asked for none")


def test_nodes_of_the_version_before_build_as_they_did_and_the_report_says_so(scene: Scene) -> None:
    node = OlderNode(scene.farm, "node-a")
    build_id = scene.submit()
    assert Stage.REPAIR not in scene.jobs(build_id)
    scene.run(node, build_id)
    scene.publish()
    report, _ = published(scene, build_id)
    assert report.repair_reason is not None
    assert "no live node" in report.repair_reason
    with pytest.raises(NotServed) as refused:
        scene.submit(options=FIX)
    assert refused.value.code == "repair_not_served"


def test_a_build_that_waited_for_a_node_goes_on_without_the_stage_that_it_does_not_know(
    scene: Scene,
) -> None:
    from tasks.reconciler import reconcile

    build_id = scene.submit(wait_for_node=600)
    assert scene.job(build_id, Stage.REPAIR).state is JobState.WAITING
    node = OlderNode(scene.farm, "node-a")
    reconcile(scene.farm)
    assert Stage.REPAIR not in scene.jobs(build_id)
    scene.run(node, build_id)
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED


def test_what_is_fixed_is_in_the_keys_of_what_it_changes(scene: Scene, node: FakeNode) -> None:
    node.repaired = REPAIRED
    build_id = scene.submit(options=FIX)
    assert (scene.job(build_id, Stage.REPAIR).recipe or {})["asked"]["fix_inputs"] == {
        "x": {"value": 0.5, "shape": None}
    }
    scene.run(node, build_id)
    assert "fixed" in (scene.job(build_id, Stage.BENCHMARK).recipe or {})
    assert "fixed" not in (scene.job(build_id, Stage.COMPILE).recipe or {})
    scene.publish()
    _, config = published(scene, build_id)
    assert config["fixed_inputs"] == {"x": {"value": 0.5, "shape": None}}


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"options": {"repair": {"fix_inputs": {"X": {"value": 1}}}}}, "unknown_input", "'x'"),
        ({"options": FIX, "profiles": [{"x": SHAPES}]}, "input_fixed", "profile 0"),
        ({"options": FIX, "synthetic": {"x": {"value": 1}}}, "input_fixed", "synthetic"),
        ({"options": {"repair": {"fix_inputs": {"x": {"shape": [2, 4]}}}}}, "fix_shape", "[1, 4]"),
        ({"options": {"repair": {"keep_outputs": ["Y"]}}}, "unknown_output", "'y'"),
    ],
    ids=["no such input", "in a profile", "in synthetic", "another shape", "no such output"],
)
def test_a_fix_that_cannot_be_is_refused_before_anything_is_built(
    scene: Scene, node: FakeNode, fields: dict[str, Any], code: str, said: str
) -> None:
    with pytest.raises((InvalidRequest, InvalidProfile)) as refused:
        scene.submit(**fields)
    assert refused.value.code == code
    assert said in f"{refused.value.message} {refused.value.why} {refused.value.fix}"


@pytest.mark.parametrize(
    "change",
    [
        {"changed": True},
        {"interface": None},
        {"outputs": "two models"},
        {"outputs": "another name"},
    ],
    ids=str,
)
def test_a_repair_whose_story_does_not_fit_its_files_is_the_nodes_failure(
    scene: Scene, node: FakeNode, change: dict[str, Any]
) -> None:
    node.repaired = None if "changed" in change else REPAIRED
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    message = node.done(work)
    facts, outputs = dict(message.facts), list(message.outputs)
    if "changed" in change:
        facts["repair"] = facts["repair"] | {"changed": True}
    elif "interface" in change:
        facts.pop("interface")
    elif change["outputs"] == "two models":
        outputs.append(outputs[-1].model_copy(update={"name": "other.onnx"}))
    else:
        outputs[-1] = outputs[-1].model_copy(update={"name": "other.onnx"})
    node.tell(work, message.model_copy(update={"facts": facts, "outputs": outputs}))
    scene.settle()
    job = scene.job(build_id, Stage.REPAIR)
    assert job.state is JobState.QUEUED
    assert (scene.attempts(job)[0].failure or {})["code"] == "result_invalid"


def test_a_repaired_model_that_the_bucket_lost_is_made_anew_by_the_next_build(
    scene: Scene, node: FakeNode
) -> None:
    node.repaired = REPAIRED
    first = scene.submit()
    scene.do(node, first, Stage.REPAIR)
    for _ in range(scene.farm.policy.max_attempts):
        node.fail(node.take(scene.job(first, Stage.CHECK)), "input_unavailable", Blame.FARM)
    assert scene.state(first) is BuildState.FAILED

    second = scene.submit()
    assert scene.job(second, Stage.REPAIR).state is JobState.QUEUED
    scene.run(node, second)
    scene.publish()
    assert scene.state(second) is BuildState.SUCCEEDED
