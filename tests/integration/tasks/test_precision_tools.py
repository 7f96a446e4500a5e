"""A tool with an environment of its own is asked where it is, and named by what it made."""

from __future__ import annotations

import json

import pytest

from enginefarm.errors import NotServed
from enginefarm.state import Stage
from tests.integration.tasks.fake_node import FakeNode, backend
from tests.integration.tasks.scene import Scene
from tests.integration.tasks.test_precisions import GPU, compiler, int8


def test_only_a_node_with_the_tool_in_its_version_gets_its_job_and_the_artifact_names_it(
    scene: Scene, node: FakeNode
) -> None:
    rtx, fp8 = compiler(scene), int8(scene, kind="fp8")
    with pytest.raises(NotServed) as refused:
        scene.submit(GPU, **fp8)
    assert "modelopt" in refused.value.why
    version = "0.47.0+onnx1.21.0.onnxruntime1.24.4"
    newest = backend(version, name="modelopt", measures=False)
    apart = FakeNode(scene.farm, "node-apart", [backend(), newest])
    older = backend("0.9.0", name="modelopt", measures=False)
    behind = FakeNode(scene.farm, "node-behind", [backend(), older])
    build_id = scene.submit(GPU, **fp8)
    scene.do(rtx, build_id, Stage.REPAIR, GPU)
    job = scene.job(build_id, Stage.CALIBRATE, GPU)
    assert (job.backend_version, job.queue) == (version, "calibrate.cpu")
    assert [each.ask(job).declined for each in (node, behind)] == ["incapable", "incapable"]
    scene.do(apart, build_id, Stage.CALIBRATE, GPU)
    scene.run(rtx, build_id, GPU)
    scene.publish()
    verified = scene.verified((scene.job(build_id, Stage.PUBLISH, GPU).result or {})["artifact"])
    definition = json.loads(verified.statement.payload)["predicate"]["buildDefinition"]
    uris = {row.get("uri") for row in definition["resolvedDependencies"]}
    assert f"pkg:generic/modelopt@{version}" in uris
    assert definition["externalParameters"]["precision"]["kind"] == "fp8"
