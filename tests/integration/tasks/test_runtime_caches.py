"""What a measurement on an RTX GPU has compiled becomes a signed file of the artifact."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from enginefarm.digest import digest_of
from enginefarm.manifest import RUNTIME_CACHE, RUNTIME_CACHE_TYPE
from enginefarm.report import BuildReport
from enginefarm.runtime_cache import MadeFor, file_name
from enginefarm.state import JobState, Stage
from storage import artifacts
from tasks.farm import Farm
from tasks.messages import Assignment, BackendDescription, OutputFile
from tests.integration.tasks.fake_node import backend
from tests.integration.tasks.scene import Scene
from tests.integration.tasks.sku_nodes import L4, RTX, SkuNode, measure

TARGET = "tensorrt-rtx@sm_89"
CODE = {L4: b"kernels for an L4", RTX: b"kernels for a 4090"}


@dataclass
class RtxNode(SkuNode):
    """A node that runs TensorRT-RTX; ``lies``: what it says of its cache that is not so."""

    backends: list[BackendDescription] = field(
        default_factory=lambda: [backend(name="tensorrt-rtx", arch="sm_89")]
    )
    lies: dict[str, Any] = field(default_factory=dict)

    def made(self, work: Assignment) -> list[tuple[OutputFile, bytes]]:
        if work.stage is not Stage.BENCHMARK:
            return super().made(work)
        data = CODE[self.gpu]
        file = OutputFile(
            role="runtime-cache",
            name=file_name(self.gpu),
            digest=digest_of(data),
            size=len(data),
            media_type=RUNTIME_CACHE_TYPE,
        )
        return [(file, data)]

    def facts(self, stage: Stage, size: int) -> dict[str, Any]:
        told = super().facts(stage, size)
        if stage is not Stage.BENCHMARK:
            return told
        made = MadeFor(version="1.7.1.116", gpu=self.gpu, driver=f"580.{self.name}")
        report = {
            "made_for": made.model_dump() | self.lies,
            "size": size,
            "first_start_ms": 900.0,
            "with_cache_ms": 60.0,
        }
        return told | {"runtime_cache": report}


@pytest.fixture
def scene(farm: Farm) -> Scene:
    return Scene.on(farm)


def built(scene: Scene, node: RtxNode, *skus: str) -> str:
    body: dict[str, Any] = {"options": {"repair": {"mode": "none"}}, "measure_on": list(skus)}
    build_id = scene.submit(TARGET, **body)
    for stage in (Stage.CHECK, Stage.COMPILE):
        scene.do(node, build_id, stage, TARGET)
    return build_id


def test_each_sku_leaves_a_cache_that_is_signed_and_says_what_it_is_for(scene: Scene) -> None:
    l4 = RtxNode(scene.farm, "a")
    rtx = RtxNode(scene.farm, "b", gpu=RTX)
    build_id = built(scene, l4, "l4", "geforce-rtx-4090")
    jobs = scene.on_skus(build_id, TARGET)
    measure(scene, l4, jobs["l4"])
    measure(scene, rtx, jobs["geforce-rtx-4090"])
    scene.publish()
    digest = (scene.job(build_id, Stage.PUBLISH, TARGET).result or {})["artifact"]
    verified = scene.verified(digest)
    layers = {row.name: row for row in verified.manifest.layers if RUNTIME_CACHE in row.annotations}
    assert set(layers) == {"runtime-l4.cache", "runtime-geforce-rtx-4090.cache"}
    for gpu, driver in ((L4, "580.a"), (RTX, "580.b")):
        layer = layers[file_name(gpu)]
        assert layer.media_type == RUNTIME_CACHE_TYPE
        made = MadeFor.model_validate_json(layer.annotations[RUNTIME_CACHE])
        assert (made.gpu, made.driver, made.version) == (gpu, driver, "1.7.1.116")
        assert scene.bucket.read(layer.digest, 1 << 20) == CODE[gpu]
    with scene.farm.database.transaction() as session:
        told = BuildReport.model_validate(artifacts.get(session, scene.tenant_id, digest).report)
    assert told.portability is not None
    each = {row.sku: row.runtime_cache for row in told.portability.skus}
    assert {sku: it and it.with_cache_ms for sku, it in each.items()} == {
        "l4": 60.0,
        "geforce-rtx-4090": 60.0,
    }


def test_without_skus_there_is_the_cache_of_the_gpu_that_measured(scene: Scene) -> None:
    node = RtxNode(scene.farm, "a")
    build_id = built(scene, node)
    measure(scene, node, scene.job(build_id, Stage.BENCHMARK, TARGET))
    scene.publish()
    digest = (scene.job(build_id, Stage.PUBLISH, TARGET).result or {})["artifact"]
    assert scene.verified(digest).manifest.file("runtime-l4.cache") is not None


@pytest.mark.parametrize(
    ("lies", "why"),
    [
        ({"driver": "590.1"}, "another machine"),
        ({"gpu": RTX}, "another name"),
        ({"version": "9" * 6_000}, "at most 64 characters"),
        ({"driver": "9" * 5_000}, "at most 64 characters"),
    ],
)
def test_a_cache_that_is_told_to_be_of_another_machine_is_refused(
    scene: Scene, lies: dict[str, Any], why: str
) -> None:
    node = RtxNode(scene.farm, "a", lies=lies)
    build_id = built(scene, node)
    job = scene.job(build_id, Stage.BENCHMARK, TARGET)
    measure(scene, node, job)
    (attempt,) = scene.attempts(job)
    assert (attempt.failure or {})["code"] == "result_invalid"
    assert why in (attempt.failure or {})["why"]
    assert scene.job(build_id, Stage.BENCHMARK, TARGET).state is JobState.QUEUED


def test_a_runtime_that_compiles_nothing_there_leaves_none(scene: Scene) -> None:
    node = RtxNode(scene.farm, "a", backends=[backend(arch="sm_89")])
    body: dict[str, Any] = {"options": {"repair": {"mode": "none"}}}
    build_id = scene.submit("onnxruntime@sm_89", **body)
    for stage in (Stage.CHECK, Stage.COMPILE):
        scene.do(node, build_id, stage, "onnxruntime@sm_89")
    job = scene.job(build_id, Stage.BENCHMARK, "onnxruntime@sm_89")
    measure(scene, node, job)
    (attempt,) = scene.attempts(job)
    assert "onnxruntime leaves no runtime cache" in (attempt.failure or {})["why"]
