"""A SKU that an engine cannot be measured on is refused when the build is asked for."""

from __future__ import annotations

import pytest

from enginefarm.errors import InvalidRequest
from tasks.farm import Farm
from tests.integration.tasks.fake_node import backend
from tests.integration.tasks.scene import Scene
from tests.integration.tasks.sku_nodes import GPU, RTX, SkuNode

SKUS = ("l4", "geforce-rtx-4090")


@pytest.fixture
def scene(farm: Farm) -> Scene:
    return Scene.on(farm)


@pytest.mark.parametrize(
    ("targets", "skus", "code", "said"),
    [
        ([GPU], ["l40"], "unknown_sku", "geforce-rtx-4090, l4"),
        ([GPU], ["h200"], "sku_of_another_architecture", "sm_90"),
        (["onnxruntime@cpu"], ["l4"], "measure_on_cpu", "cpu"),
    ],
)
def test_a_sku_that_cannot_be_measured_on_is_refused_at_once(
    scene: Scene,
    targets: list[str],
    skus: list[str],
    code: str,
    said: str,
) -> None:
    SkuNode(scene.farm, "node-l4")
    SkuNode(scene.farm, "node-rtx", gpu=RTX)
    SkuNode(scene.farm, "node-h", gpu="NVIDIA H200", arch="sm_90")
    SkuNode(scene.farm, "node-c", backends=[backend()], gpu="cpu", arch="cpu")
    with pytest.raises(InvalidRequest) as refused:
        scene.submit(*targets, measure_on=skus)
    assert refused.value.code == code
    assert said in f"{refused.value} {refused.value.why} {refused.value.fix}"


def test_a_gpu_that_is_out_or_that_its_backend_does_not_run_on_is_refused(scene: Scene) -> None:
    SkuNode(scene.farm, "ill", gpu=RTX, fault="it fell off the bus")
    SkuNode(scene.farm, "mute", backends=[backend(arch="sm_89", measures=False)])
    for sku in SKUS:
        with pytest.raises(InvalidRequest) as refused:
            scene.submit(GPU, measure_on=[sku])
        assert refused.value.code == "sku_not_measured"
