"""A target that names more than an architecture, from its ring to what a deployer reads."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.errors import NotServed
from enginefarm.manifest import EngineConfig, read_manifest
from enginefarm.sku import sku_of
from enginefarm.state import BuildState, JobState, Stage
from enginefarm.target_text import Portability
from storage import backlog
from tasks.app import make_app
from tasks.dispatcher import dispatch
from tests.integration.tasks.fake_node import FakeNode, backend
from tests.integration.tasks.scene import Scene

ANY, L4 = "tensorrt@sm_89", "tensorrt@sm_89:l4"
AS_IT_IS: dict[str, Any] = {"options": {"repair": {"mode": "none"}}}


def gpu_node(scene: Scene, gpu: str) -> FakeNode:
    offered = [backend("11.4", name="tensorrt", arch="sm_89", measures=False)]
    return FakeNode(scene.farm, sku_of(gpu), offered, gpus=[gpu])


@pytest.fixture
def l4(scene: Scene) -> FakeNode:
    return gpu_node(scene, "NVIDIA L4")


@pytest.fixture
def other(scene: Scene) -> FakeNode:
    return gpu_node(scene, "NVIDIA GeForce RTX 4090")


def submitted(scene: Scene, target: str, **fields: Any) -> str:  # noqa: ANN401 - any of a build
    return scene.submit(target, model=scene.other(), **AS_IT_IS | fields)


def test_a_job_for_a_sku_is_announced_while_such_a_node_has_room_and_holds_up_nobody(
    scene: Scene,
    l4: FakeNode,
    other: FakeNode,
    valkey_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backlog, "EACH", 1)
    app = make_app(valkey_url, publisher=True)
    first, second, plain = (submitted(scene, target) for target in (L4, L4, ANY))

    assert dispatch(scene.farm, app) == 2  # one for each node; of the two for the L4, one
    job = scene.job(first, Stage.CHECK, L4)
    assert other.ask(job).declined == "incapable"
    assert scene.rings(second)[0].sent_at is None
    assert scene.rings(plain)[0].sent_at is not None

    # The ring that was declined goes out again: it does not stand in its own way.
    scene.hurry(first)
    assert dispatch(scene.farm, app) == 1
    assert scene.rings(first)[-1].sent_at is not None
    # While the L4 has its job, nothing else for it is announced.
    work = l4.take(job)
    other.take(scene.job(plain, Stage.CHECK, ANY))
    assert dispatch(scene.farm, app) == 0
    assert l4.tell(work, l4.done(work)) is JobState.UPLOADED
    scene.settle()
    assert dispatch(scene.farm, app) == 1
    assert scene.rings(second)[0].sent_at is None  # what was begun goes on first


def test_a_sku_whose_only_gpu_is_out_is_not_announced(
    scene: Scene, l4: FakeNode, other: FakeNode, valkey_url: str
) -> None:
    submitted(scene, L4)
    l4.fault = "Xid 79"
    l4.start_again()

    assert dispatch(scene.farm, make_app(valkey_url, publisher=True)) == 0
    with pytest.raises(NotServed) as refused:
        submitted(scene, L4)
    assert refused.value.context["other_targets"] == ["tensorrt@sm_89:geforce-rtx-4090"]


def config_of(scene: Scene, build_id: str, target: str) -> EngineConfig:
    """Return the config that a deployer reads of what a build has published."""
    result = scene.job(build_id, Stage.PUBLISH, target).result or {}
    manifest = read_manifest(scene.farm.objects.read(result["artifact"], 1 << 20))
    data = scene.farm.objects.read(manifest.config.digest, 1 << 20)
    return EngineConfig.model_validate_json(data)


def test_a_portable_engine_is_built_once_whoever_names_it_and_its_config_says_so(
    scene: Scene, l4: FakeNode
) -> None:
    mode = f"{L4}+same_compute_capability"
    option = {"repair": {"mode": "none"}, "compile": {
        "hardware_compatibility": "same-compute-capability"
    }}  # fmt: skip
    named = scene.submit(mode, **AS_IT_IS)
    scene.run(l4, named, mode)
    asked = scene.submit(L4, options=option)
    scene.publish()

    assert [scene.state(row) for row in (named, asked)] == [BuildState.SUCCEEDED] * 2
    compiled = scene.job(asked, Stage.COMPILE, L4)
    assert compiled.cached_from == scene.job(named, Stage.COMPILE, mode).id
    told = config_of(scene, named, mode)
    assert (told.target, told.arch, told.portability) == (mode, "sm_89", None)
    told = config_of(scene, asked, L4)
    assert (told.target, told.portability) == (L4, Portability.SAME_COMPUTE_CAPABILITY)


def test_one_file_for_several_architectures_is_published_unmeasured_with_each_of_them_named(
    scene: Scene,
) -> None:
    offered = backend("1.7", name="tensorrt-rtx", measures=False)
    both = offered.model_copy(update={"builds": ["sm_86", "sm_89"]})
    node = FakeNode(scene.farm, "rtx", [both])
    build_id = scene.submit("tensorrt-rtx@sm_89+sm_86", **AS_IT_IS)
    target = "tensorrt-rtx@sm_86+sm_89"
    assert scene.job(build_id, Stage.CHECK, target).queue == "check.sm_86"
    scene.run(node, build_id, target)
    scene.publish()

    assert scene.state(build_id) is BuildState.SUCCEEDED
    assert scene.job(build_id, Stage.PUBLISH, target).unmeasured == (
        "not run: no live node has a sm_86 or sm_89 device with tensorrt-rtx"
    )
    told = config_of(scene, build_id, target)
    assert (told.target, told.arch, told.measured) == (target, "sm_86", False)
