"""A build that names plugins, from its rings to what is signed; beside it one that names none."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from enginefarm.digest import digest_of, hex_of
from enginefarm.errors import InvalidRequest, NotServed
from enginefarm.manifest import EngineConfig
from enginefarm.state import JobState, Stage
from storage import backlog
from storage.models import Job
from tasks.app import make_app
from tasks.dispatcher import dispatch
from tasks.messages import BackendDescription, PluginDescription
from tasks.reconciler import reconcile
from tests.integration.tasks.compared import artifact, asked
from tests.integration.tasks.fake_node import FakeNode, backend
from tests.integration.tasks.scene import CPU, Scene

GIB = 1 << 30
OPS, OTHER = digest_of(b"operators"), digest_of(b"other operators")


def named(*digests: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - any options
    plugins = {"plugins": {"onnxruntime": list(digests)}} if digests else {}
    return {"options": {"repair": {"mode": "none"}} | plugins | more}


@dataclass
class Equipped(FakeNode):
    """A node with plugins for ONNX Runtime."""

    backends: list[BackendDescription] = field(
        default_factory=lambda: [
            backend().model_copy(
                update={
                    "plugins": [
                        PluginDescription(name="libops.so", digest=OPS),
                        PluginDescription(name="libother.so", digest=OTHER),
                    ]
                }
            )
        ]
    )


def config_of(scene: Scene, digest: str) -> bytes:
    return scene.farm.objects.read(scene.verified(digest).manifest.config.digest, 1 << 20)


@pytest.fixture
def plain(scene: Scene) -> FakeNode:
    return FakeNode(scene.farm, "plain")


@pytest.fixture
def equipped(scene: Scene) -> Equipped:
    return Equipped(scene.farm, "equipped")


def test_a_job_that_needs_plugins_goes_to_the_node_that_has_them_and_holds_up_nobody(
    scene: Scene,
    plain: FakeNode,
    equipped: Equipped,
    valkey_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backlog, "EACH", 1)
    app = make_app(valkey_url, publisher=True)
    first, second = (scene.submit(CPU, model=scene.other(), **named(OPS)) for _ in range(2))
    bare = scene.submit(CPU, model=scene.other(), **named())

    assert dispatch(scene.farm, app) == 2  # a seat each: of those that need plugins, one
    assert scene.rings(second)[0].sent_at is None
    assert scene.rings(bare)[0].sent_at is not None
    job = scene.job(first, Stage.CHECK)
    assert plain.ask(job).declined == "incapable"
    plain.take(scene.job(bare, Stage.CHECK))
    scene.hurry(first)
    assert dispatch(scene.farm, app) == 1
    work = equipped.take(job)
    assert work.recipe["plugins"] == {"onnxruntime": [OPS]}
    assert dispatch(scene.farm, app) == 0
    assert equipped.tell(work, equipped.done(work)) is JobState.UPLOADED
    scene.settle()
    assert dispatch(scene.farm, app) == 1


def test_nothing_is_announced_for_the_node_that_has_them_while_it_is_busy(
    scene: Scene, plain: FakeNode, equipped: Equipped, valkey_url: str
) -> None:
    app = make_app(valkey_url, publisher=True)
    first = scene.submit(CPU, model=scene.other(), **named(OPS))
    assert dispatch(scene.farm, app) == 1
    equipped.take(scene.job(first, Stage.CHECK))
    second = scene.submit(CPU, model=scene.other(), **named(OPS))
    assert dispatch(scene.farm, app) == 0
    bare = scene.submit(CPU, model=scene.other(), **named())
    assert dispatch(scene.farm, app) == 1
    assert scene.rings(second)[0].sent_at is None
    assert plain.take(scene.job(bare, Stage.CHECK)).recipe.get("plugins") is None


def test_what_was_loaded_is_signed_and_told_to_whoever_loads_the_engine(
    scene: Scene, equipped: Equipped
) -> None:
    digest = artifact(scene, equipped, **named(OPS))
    verified = scene.verified(digest)
    definition: Any = verified.statement.build_definition
    library = f"plugins/onnxruntime/{hex_of(OPS)[:12]}"
    dependency = {"name": library, "digest": {"sha256": hex_of(OPS)}}
    assert dependency in definition["resolvedDependencies"]
    assert definition["externalParameters"]["plugins"] == {"onnxruntime": [OPS]}
    assert EngineConfig.model_validate_json(config_of(scene, digest)).plugins == [OPS]
    report = verified.manifest.file("report.json")
    assert report is not None
    recipe = json.loads(scene.farm.objects.read(report.digest, 1 << 20))["recipe"]
    assert recipe["plugins"] == {"onnxruntime": [OPS]}


@pytest.mark.parametrize("carried", [True, False])
def test_an_engine_that_carries_its_plugins_needs_none_of_whoever_runs_it(
    scene: Scene, *, carried: bool
) -> None:
    row = PluginDescription(name="libops.so", digest=OPS, operators=["Own"])
    offered = backend("11.4", name="tensorrt", arch="sm_89", measures=False)
    node = FakeNode(
        scene.farm, "trt", [offered.model_copy(update={"plugins": [row]})], gpus=["NVIDIA L4"]
    )
    asked: dict[str, Any] = {
        "repair": {"mode": "none"},
        "plugins": {"tensorrt": [OPS]},
        "compile": {"version_compatible": True, "serialize_plugins": carried},
    }
    digest = artifact(scene, node, "tensorrt@sm_89", options=asked)
    config = EngineConfig.model_validate_json(config_of(scene, digest))
    assert config.plugins == ([] if carried else [OPS])


def test_an_engine_without_plugins_has_the_config_that_it_had_before(
    scene: Scene, equipped: Equipped
) -> None:
    assert b"plugins" not in config_of(scene, artifact(scene, equipped, **named()))


def test_the_same_build_is_cached_and_one_with_another_library_is_not(
    scene: Scene, equipped: Equipped
) -> None:
    one = artifact(scene, equipped, **named(OPS))
    again = scene.submit(CPU, **named(OPS))
    assert scene.job(again, Stage.BENCHMARK).cached_from is not None
    other = scene.submit(CPU, **named(OTHER))
    assert scene.job(other, Stage.CHECK).cached_from is None
    assert one


def test_a_build_whose_plugins_nobody_has_is_refused_before_anything_is_written(
    scene: Scene, plain: FakeNode
) -> None:
    before = scene.count(Job)
    with pytest.raises(NotServed) as refused:
        scene.submit(CPU, **named(OPS))
    assert refused.value.code == "plugin_not_served"
    assert scene.count(Job) == before
    assert plain.described().backends[0].plugins == []
    waiting = scene.submit(CPU, **named(OPS), wait_for_node=600)
    assert scene.job(waiting, Stage.CHECK).state is JobState.WAITING


def test_the_memory_of_a_node_without_the_plugins_is_no_room_for_the_build(scene: Scene) -> None:
    took = {Stage.COMPILE: 6 * GIB}
    large = Equipped(scene.farm, "large", memory_bytes=8 * GIB, took=took)
    build_id = scene.submit(CPU, **named(OPS))
    scene.run(large, build_id)
    scene.withdraw(build_id)
    scene.silence(large.node_id, 3600)
    reconcile(scene.farm)
    little = Equipped(scene.farm, "little", memory_bytes=4 * GIB)
    plain = FakeNode(scene.farm, "plain", memory_bytes=8 * GIB)
    again = scene.submit(CPU, **named(OPS))
    scene.do(little, again, Stage.CHECK)
    failure = scene.failure(scene.job(again, Stage.COMPILE))
    assert failure.code == "memory_not_served"
    assert plain.described().memory_bytes == 8 * GIB


def test_two_artifacts_are_compared_with_the_plugins_of_both_unless_they_differ(
    scene: Scene, equipped: Equipped
) -> None:
    bare, one = artifact(scene, equipped, **named()), artifact(scene, equipped, **named(OPS))
    other = artifact(scene, equipped, **named(OTHER))
    build_id = asked(scene, bare, one)
    recipe = scene.job(build_id, Stage.BENCHMARK).recipe or {}
    assert recipe["plugins"] == {"onnxruntime": [OPS]}
    with pytest.raises(InvalidRequest) as refused:
        asked(scene, one, other)
    assert refused.value.code == "comparison_plugins"
