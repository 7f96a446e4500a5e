"""A model in another precision is made once, serves every target, and the artifact tells of it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from enginefarm.digest import canonical_json, digest_of
from enginefarm.errors import InvalidDataset, InvalidRequest, NotFound, NotServed
from enginefarm.manifest import LABELS, PRECISION, VERDICT
from enginefarm.state import PLAIN_STAGES, Blame, BuildState, JobState, Stage
from storage import blobs, catalogue
from storage.database import now
from storage.keeping import inputs as kept_inputs
from tasks.messages import NodeDescription
from tasks.reconciler import reconcile
from tasks.routing import NODE_STAGES
from tests.integration.tasks.fake_node import FakeNode, backend
from tests.integration.tasks.scene import CPU, Scene
from tests.integration.tasks.test_repaired_models import published

GPU = "tensorrt-rtx@sm_89"
FP16 = {"kind": "fp16"}


def compiler(scene: Scene) -> FakeNode:
    """Return a node with a compiler, and without the tool that changes precisions."""
    rtx = backend(name="tensorrt-rtx", arch="sm_89", measures=False)
    return FakeNode(scene.farm, "node-rtx", [rtx], engine=b"an engine of the compiler's")


class OlderNode(FakeNode):
    """A node of the version before: it knows no precisions."""

    def described(self) -> NodeDescription:
        stages = [stage for stage in NODE_STAGES if stage not in {Stage.CAST, Stage.CALIBRATE}]
        return super().described().model_copy(update={"stages": stages})


def dataset(
    scene: Scene, name: str, dtype: str = "float32", columns: int = 4, samples: int = 64
) -> str:
    data = f"{name} of {scene.tenant_id} {scene.model}".encode()
    scene.farm.objects.put_bytes(digest_of(data), data, "application/octet-stream")
    with scene.farm.database.transaction() as session:
        blobs.record(
            session, scene.tenant_id, digest_of(data), len(data), "application/octet-stream"
        )
        catalogue.add_dataset(
            session,
            scene.tenant_id,
            digest=digest_of(data),
            name=name,
            size=len(data),
            samples=samples,
            arrays=[{"name": "x", "dtype": dtype, "shape": [samples, columns]}],
        )
    return digest_of(data)


def int8(scene: Scene, **more: object) -> dict[str, Any]:
    asked = {"kind": "int8", "calibration": dataset(scene, "calibration")} | more
    return {"precision": asked, "evaluation": dataset(scene, "held out")}


def written(node: FakeNode) -> dict[str, Any]:
    file = {"digest": digest_of(node.precise), "name": "model.onnx", "size": len(node.precise)}
    return {"digest": digest_of(canonical_json({"files": [file]})), "files": [file]}


def test_what_was_calibrated_is_checked_and_compiled_and_the_original_is_the_measure(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit(**int8(scene))
    scene.do(node, build_id, Stage.REPAIR)
    job = scene.job(build_id, Stage.CALIBRATE)
    assert job.queue == "calibrate.cpu"
    work = node.take(job)
    assert sorted(file.role for file in work.inputs) == ["calibration", "dataset", "model"]
    assert len({file.name for file in work.inputs}) == 3
    node.tell(work, node.done(work))
    scene.settle()
    for stage in (Stage.CHECK, Stage.COMPILE):
        work = node.take(scene.job(build_id, stage))
        assert work.recipe["model"] == written(node)
        node.tell(work, node.done(work))
        scene.settle()
    scene.run_twin(node, build_id)
    work = node.take(scene.job(build_id, Stage.BENCHMARK))
    original: Any = work.recipe["model"]
    assert original["digest"] == scene.model
    assert sorted(file.role for file in work.inputs) == ["dataset", "engine", "model", "twin"]


def test_report_manifest_and_provenance_tell_of_the_precision(scene: Scene, node: FakeNode) -> None:
    node.repaired, node.labels = b"repaired before", ["synthetic_calibration"]
    asked = int8(scene)
    build_id = scene.submit(**asked)
    scene.run(node, build_id)
    scene.publish()

    report, config = published(scene, build_id)
    assert report.precision is not None
    assert report.precision.recipe.kind == "int8"
    assert report.precision.model_accuracy is not None
    assert report.precision.model_accuracy.outputs[0].cosine == 0.998
    assert report.accuracy is not None
    assert report.accuracy.outputs[0].cosine == node.cosine
    assert report.repaired_model == config["repaired_model"] == written(node)["digest"]
    verified = scene.verified((scene.job(build_id, Stage.PUBLISH).result or {})["artifact"])
    notes = verified.manifest.annotations
    assert notes == {PRECISION: "int8", LABELS: "synthetic_calibration", VERDICT: "accept"}
    predicate = json.loads(verified.statement.payload)["predicate"]
    definition = predicate["buildDefinition"]
    assert definition["externalParameters"]["precision"]["method"] == "percentile"
    named = {row.get("name"): row for row in definition["resolvedDependencies"]}
    calibration = asked["precision"]["calibration"].removeprefix("sha256:")
    assert named["calibration.npz"]["digest"] == {"sha256": calibration}
    made = {row["name"] for row in predicate["runDetails"]["byproducts"]}
    assert made == {"repaired/model.onnx", "precision/model.onnx"}
    assert {"repaired/model.onnx", "precision/model.onnx"} <= set(named)


def test_a_build_as_it_is_says_nothing_of_precision(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    assert tuple(scene.jobs(build_id)) == PLAIN_STAGES
    scene.run(node, build_id)
    scene.publish()
    report, _ = published(scene, build_id)
    assert report.precision is None
    verified = scene.verified((scene.job(build_id, Stage.PUBLISH).result or {})["artifact"])
    assert verified.manifest.annotations == {}


def test_targets_of_different_backends_share_one_calibration_on_any_node_with_the_tool(
    scene: Scene, node: FakeNode
) -> None:
    rtx = compiler(scene)
    build_id = scene.submit(GPU, CPU, **int8(scene))
    scene.do(rtx, build_id, Stage.REPAIR, GPU)
    scene.do(node, build_id, Stage.REPAIR, CPU)
    leader, follower = (scene.job(build_id, Stage.CALIBRATE, each) for each in (GPU, CPU))
    assert leader.key == follower.key
    assert follower.joined_to == leader.id
    # The compiler's node has no such tool, and is not asked.
    assert rtx.ask(leader).declined == "incapable"
    scene.do(node, build_id, Stage.CALIBRATE, GPU)
    scene.run(rtx, build_id, GPU)
    scene.run(node, build_id, CPU)
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED
    for target in (GPU, CPU):
        assert (scene.job(build_id, Stage.COMPILE, target).recipe or {})["model"] == written(node)
    report, _ = published(scene, build_id, GPU)
    assert report.accuracy is None
    assert report.precision is not None
    assert report.precision.model_accuracy is not None


def test_a_second_build_takes_the_calibrated_model_from_the_cache(
    scene: Scene, node: FakeNode
) -> None:
    asked = int8(scene)
    first = scene.submit(**asked)
    scene.run(node, first)
    scene.publish()
    second = scene.submit(labels={"again": "yes"}, **asked)
    assert set(scene.states(second)) == {JobState.SUCCEEDED}
    assert scene.job(second, Stage.CALIBRATE).cached_from == scene.job(first, Stage.CALIBRATE).id
    other = scene.submit(**int8(scene, method="minmax"))
    assert scene.job(other, Stage.CALIBRATE).state is JobState.QUEUED


def test_a_cast_needs_no_data_and_gets_what_there_is(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit(precision=FP16)
    assert Stage.CALIBRATE not in scene.jobs(build_id)
    scene.do(node, build_id, Stage.REPAIR)
    work = node.take(scene.job(build_id, Stage.CAST))
    assert [file.role for file in work.inputs] == ["model"]
    assert work.recipe["precision"] == {
        "kind": "fp16",
        "tool": "enginefarm",
        "op_types": [],
        "exclude": [],
        "calibration": None,
        "samples": None,
    }


def test_a_build_that_waits_gets_the_version_of_the_tool_that_came(scene: Scene) -> None:
    OlderNode(scene.farm, "node-a")
    with pytest.raises(NotServed) as refused:
        scene.submit(precision=FP16)
    assert refused.value.code == "precision_not_served"
    build_id = scene.submit(precision=FP16, wait_for_node=600)
    assert scene.job(build_id, Stage.CAST).backend_version is None
    assert scene.job(build_id, Stage.REPAIR).note == "waits for a node that can cast a model"
    node = FakeNode(scene.farm, "node-b", [backend("1.2.4")])
    reconcile(scene.farm)
    assert scene.job(build_id, Stage.CAST).backend_version == "1.2.4"
    scene.run(node, build_id)
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED


def test_a_refused_calibration_ends_every_target_of_the_build(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit(**int8(scene))
    scene.do(node, build_id, Stage.REPAIR)
    work = node.take(scene.job(build_id, Stage.CALIBRATE))
    node.fail(work, "calibration_not_finite", Blame.PERSON)
    assert scene.state(build_id) is BuildState.FAILED
    job = scene.job(build_id, Stage.CALIBRATE)
    assert scene.failure(job).code == "calibration_not_finite"
    assert scene.job(build_id, Stage.COMPILE).state is JobState.CANCELLED


@pytest.mark.parametrize("change", ["no model", "nothing changed", "no accuracy", "no interface"])
def test_a_precision_whose_story_does_not_fit_its_files_is_the_nodes_failure(
    scene: Scene, node: FakeNode, change: str
) -> None:
    build_id = scene.submit(precision=FP16)
    scene.do(node, build_id, Stage.REPAIR)
    work = node.take(scene.job(build_id, Stage.CAST))
    message = node.done(work)
    facts, outputs = dict(message.facts), list(message.outputs)
    if change == "no model":
        outputs = [row for row in outputs if row.role != "model"]
    elif change == "nothing changed":
        facts["precision"] |= {"changed": 0}
    elif change == "no accuracy":
        facts["precision"] |= {"model_accuracy": None}
    else:
        facts.pop("interface")
    node.tell(work, message.model_copy(update={"facts": facts, "outputs": outputs}))
    scene.settle()
    job = scene.job(build_id, Stage.CAST)
    assert job.state is JobState.QUEUED
    assert (scene.attempts(job)[0].failure or {})["code"] == "result_invalid"


def test_what_cannot_be_is_refused_before_anything_is_built(scene: Scene, node: FakeNode) -> None:
    held_out = dataset(scene, "held out")
    for asked, code in (
        ({"kind": "int8"}, "calibration_missing"),
        ({"kind": "int8", "calibration": held_out}, "calibration_is_evaluation"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            scene.submit(precision=asked, evaluation=held_out)
        assert refused.value.code == code
    with pytest.raises(NotFound):
        scene.submit(precision={"kind": "int8", "calibration": "sha256:" + "0" * 64})


def test_doubles_may_calibrate_and_bytes_and_other_widths_may_not(
    scene: Scene, node: FakeNode
) -> None:
    doubles = dataset(scene, "doubles", "float64")
    scene.submit(precision={"kind": "int8", "calibration": doubles})
    with pytest.raises(InvalidDataset) as refused:
        scene.submit(evaluation=doubles)
    assert refused.value.code == "dataset_dtype"
    for wrong, code in (
        (dataset(scene, "bytes", "uint8"), "dataset_dtype"),
        (dataset(scene, "wide", columns=5), "dataset_shape"),
    ):
        with pytest.raises(InvalidDataset) as refused:
            scene.submit(precision={"kind": "int8", "calibration": wrong})
        assert refused.value.code == code


def test_a_dataset_that_a_build_calibrates_with_is_in_use(scene: Scene, node: FakeNode) -> None:
    asked = int8(scene)
    scene.submit(**asked)
    with scene.farm.database.transaction() as session:
        soon = now() + timedelta(hours=1)
        rows = kept_inputs.datasets(session, soon, None, 1000)
    used = {row.key[-1]: row.live for row in rows if row.tenant_id == scene.tenant_id}
    assert used[asked["precision"]["calibration"]] is True


@pytest.mark.usefixtures("node")
def test_data_that_its_stage_would_refuse_is_refused_before_anything_is_prepared(
    scene: Scene,
) -> None:
    few = int8(scene, calibration=dataset(scene, "a few", samples=3))["precision"]
    with pytest.raises(InvalidRequest) as refused:
        scene.submit(precision=few)
    assert refused.value.code == "calibration_too_few"
    assert "3 samples" in str(refused.value)
    assert scene.submit(precision=few, evaluation=dataset(scene, "held out"))
