"""Who waits for another build's measurement of a SKU; and a SKU that is named is measured on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from enginefarm.comparison_report import ComparisonReport
from enginefarm.errors import InvalidRequest
from enginefarm.state import Blame, BuildState, JobState, Stage
from storage.models import Job
from tasks.cancel import cancel
from tasks.farm import Farm
from tasks.reconciler import reconcile
from tests.integration.tasks.compared import artifact, asked
from tests.integration.tasks.fake_node import backend
from tests.integration.tasks.scene import Scene
from tests.integration.tasks.sku_nodes import GPU, RTX, SkuNode, compiled, measure

ON_L4 = f"{GPU}:l4"
AS_IT_IS: dict[str, Any] = {"options": {"repair": {"mode": "none"}}}


@pytest.fixture
def scene(farm: Farm) -> Scene:
    return Scene.on(farm)


@pytest.fixture
def l4(scene: Scene) -> SkuNode:
    return SkuNode(scene.farm, "node-l4")


def on_l4(scene: Scene, build_id: str) -> Job:
    return scene.on_skus(build_id, GPU)["l4"]


def expires(scene: Scene, build_id: str, _node: SkuNode) -> None:
    scene.age(on_l4(scene, build_id), "queued_at", 10_000)
    reconcile(scene.farm)


def fails_by_its_own_clock(scene: Scene, build_id: str, node: SkuNode) -> None:
    for _ in range(5):
        if on_l4(scene, build_id).state is JobState.QUEUED:
            scene.hurry(build_id)
            node.fail(node.take(on_l4(scene, build_id)), "running_limit", Blame.PERSON)


@pytest.mark.parametrize("end", [expires, fails_by_its_own_clock])
def test_a_measurement_that_joined_another_starts_for_itself_when_that_one_ends(
    scene: Scene, l4: SkuNode, end: Callable[[Scene, str, SkuNode], None]
) -> None:
    leader = compiled(scene, l4, "l4", limits={"pending_s": 60})
    follower, third = (scene.submit(GPU, measure_on=["l4"], **AS_IT_IS) for _ in range(2))
    assert on_l4(scene, follower).joined_to == on_l4(scene, leader).id
    end(scene, leader, l4)
    assert on_l4(scene, leader).state.terminal
    states = {on_l4(scene, build_id).state for build_id in (follower, third)}
    assert states == {JobState.QUEUED, JobState.WAITING}  # one works, the other waits for it
    working, waiting = sorted((follower, third), key=lambda row: on_l4(scene, row).state)
    assert on_l4(scene, waiting).joined_to == on_l4(scene, working).id
    cancel(scene.farm, scene.tenant_id, working)
    reconcile(scene.farm)
    measure(scene, l4, on_l4(scene, working))  # it is wanted by the other
    scene.publish()
    assert scene.state(waiting) is BuildState.SUCCEEDED


def test_an_engine_for_a_sku_that_was_measured_on_another_is_refused(scene: Scene) -> None:
    liar = SkuNode(scene.farm, "node-l4", reported=RTX)
    build_id = scene.submit(ON_L4, **AS_IT_IS)
    scene.do(liar, build_id, Stage.CHECK, ON_L4)
    job = scene.job(build_id, Stage.COMPILE, ON_L4)
    work = liar.take(job)
    liar.tell(work, liar.done(work))
    scene.settle()
    (first, *_) = scene.attempts(job)
    assert (first.failure or {})["why"] == (
        "ValueError: it was built on geforce-rtx-4090 instead of l4."
    )


def test_engines_that_are_for_no_sku_are_compared_on_the_one_that_is_named(scene: Scene) -> None:
    ahead = "tensorrt-rtx@sm_89"
    offered = [backend("1.7", name="tensorrt-rtx", arch="sm_89")]
    l4 = SkuNode(scene.farm, "rtx-l4", backends=offered)
    other = SkuNode(scene.farm, "rtx-4090", backends=offered, gpu=RTX)
    first = artifact(scene, l4, ahead)
    build_id = asked(scene, first, first, on="l4")
    job = scene.on_skus(build_id, ahead)["l4"]
    assert other.ask(job).declined == "incapable"
    other_key = scene.on_skus(asked(scene, first, first, on="geforce-rtx-4090"), ahead)
    assert other_key["geforce-rtx-4090"].key != job.key
    measure(scene, l4, job)
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED
    result = scene.job(build_id, Stage.PUBLISH, ahead).result or {}
    assert ComparisonReport.model_validate(result["report"]).rows[0].speedup == 1.5
    assert scene.state(asked(scene, first, first, on="l4")) is BuildState.SUCCEEDED
    with pytest.raises(InvalidRequest) as refused:
        asked(scene, first, first, on="t4")
    assert refused.value.code == "unknown_sku"


def test_a_comparison_on_a_sku_that_was_made_on_another_is_refused(
    scene: Scene, l4: SkuNode
) -> None:
    first = artifact(scene, l4, GPU)
    build_id = asked(scene, first, first, on="l4")
    l4.reported = RTX
    job = scene.job(build_id, Stage.BENCHMARK, ON_L4)
    work = l4.take(job)
    l4.tell(work, l4.done(work))
    scene.settle()
    (tried, *_) = scene.attempts(job)
    assert (tried.failure or {})["code"] == "result_invalid"
    assert "instead of l4" in (tried.failure or {})["why"]
