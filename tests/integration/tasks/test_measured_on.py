"""One engine, measured on several SKUs: each has its job, and the worst of them decides."""

from __future__ import annotations

from typing import Any

import pytest

from enginefarm.manifest import LABELS
from enginefarm.report import UNMEASURED_SKU, BuildReport, SkuReport
from enginefarm.state import ArtifactState, BuildState, JobState, Stage
from storage import artifacts, outbox
from storage.database import Session
from storage.models import Artifact
from tasks.app import make_app
from tasks.cancel import cancel
from tasks.dispatcher import dispatch
from tasks.farm import Farm
from tasks.reconciler import reconcile
from tasks.submit import plan
from tests.integration.tasks.fake_node import backend
from tests.integration.tasks.scene import Scene
from tests.integration.tasks.sku_nodes import GPU, L4, RTX, SkuNode, compiled, measure

SKUS = ("l4", "geforce-rtx-4090")
ACCURATE = {"metric": "cosine", "at_least": 0.99}
FAST = {"metric": "latency_p50_ms", "at_most": 2.0}


@pytest.fixture
def scene(farm: Farm) -> Scene:
    return Scene.on(farm)


@pytest.fixture
def l4(scene: Scene) -> SkuNode:
    return SkuNode(scene.farm, "node-l4")


@pytest.fixture
def rtx(scene: Scene) -> SkuNode:
    return SkuNode(scene.farm, "node-rtx", gpu=RTX, p50=3.0)


def artifact(scene: Scene, build_id: str) -> Artifact:
    digest = (scene.job(build_id, Stage.PUBLISH, GPU).result or {})["artifact"]
    with scene.farm.database.transaction() as session:
        return artifacts.get(session, scene.tenant_id, digest)


def report(scene: Scene, build_id: str) -> BuildReport:
    return BuildReport.model_validate(artifact(scene, build_id).report)


def rows(scene: Scene, build_id: str) -> dict[str, SkuReport]:
    told = report(scene, build_id).portability
    assert told is not None
    return {row.sku: row for row in told.skus}


def test_one_compile_is_measured_on_each_sku_and_the_report_compares_them(
    scene: Scene, l4: SkuNode, rtx: SkuNode
) -> None:
    build_id = compiled(scene, l4, "every", gates=[ACCURATE])
    assert scene.build(build_id).spec["measure_on"] == ["geforce-rtx-4090", "l4"]
    jobs = scene.on_skus(build_id, GPU)
    assert {sku: row.state for sku, row in jobs.items()} == dict.fromkeys(SKUS, JobState.QUEUED)
    # Neither takes what is to be measured on the other's GPU.
    assert rtx.ask(jobs["l4"]).declined == "incapable"
    assert l4.ask(jobs["geforce-rtx-4090"]).declined == "incapable"
    measure(scene, rtx, jobs["geforce-rtx-4090"])
    scene.publish()
    assert scene.job(build_id, Stage.PUBLISH, GPU).state is JobState.WAITING
    measure(scene, l4, jobs["l4"])
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED
    told = report(scene, build_id)
    assert told.portability is not None
    assert (told.portability.reference, told.portability.compiled_on) == ("l4", "l4")
    found = {
        row.sku: (row.machine and row.machine.driver, row.latency[0].end_to_end_ms.p50, row.ratios)
        for row in told.portability.skus
    }
    assert found == {
        "geforce-rtx-4090": ("580.node-rtx", 3.0, [2.0]),
        "l4": ("580.node-l4", 1.5, [1.0]),
    }
    assert told.measure_machine is not None
    assert told.measure_machine.device == L4
    statement = scene.verified(artifact(scene, build_id).digest).statement
    asked: Any = statement.build_definition["externalParameters"]
    assert asked["measurement"]["measure_on"] == ["geforce-rtx-4090", "l4"]


def test_an_engine_that_is_wrong_on_one_sku_is_held_back_and_said_to_be(
    scene: Scene, l4: SkuNode, rtx: SkuNode
) -> None:
    rtx.cosine = 0.8
    build_id = compiled(scene, l4, *SKUS, gates=[ACCURATE, FAST])
    jobs = scene.on_skus(build_id, GPU)
    measure(scene, l4, jobs["l4"])
    measure(scene, rtx, jobs["geforce-rtx-4090"])
    scene.publish()
    assert artifact(scene, build_id).state is ArtifactState.QUARANTINED
    told = report(scene, build_id)
    assert told.accuracy is not None
    assert told.accuracy.outputs[0].cosine == 0.9999  # of the reference, which is right
    cosine, latency = told.gates
    assert (cosine.met, cosine.value) == (False, 0.8)
    assert cosine.reason == "on geforce-rtx-4090, the worst of 2 SKUs"
    assert (latency.met, latency.value) == (False, 3.0)
    met = {sku: [gate.met for gate in row.gates] for sku, row in rows(scene, build_id).items()}
    assert met == {"l4": [True, True], "geforce-rtx-4090": [False, False]}


def without_rtx(scene: Scene, rtx: SkuNode, build_id: str) -> None:
    """Let the node with one of the GPUs go, and the pending limit run out."""
    scene.silence(rtx.node_id, 100)
    scene.age(scene.on_skus(build_id, GPU)["geforce-rtx-4090"], "queued_at", 8 * 86_400)
    reconcile(scene.farm)
    scene.publish()


@pytest.mark.parametrize("last", ["measured", "given up"])
def test_a_sku_that_never_comes_is_a_gap_that_is_said_and_loses_no_other(
    scene: Scene, l4: SkuNode, rtx: SkuNode, last: str
) -> None:
    build_id = compiled(scene, l4, *SKUS)
    if last == "measured":
        without_rtx(scene, rtx, build_id)
        assert scene.state(build_id) is BuildState.RUNNING
    measure(scene, l4, scene.on_skus(build_id, GPU)["l4"])
    if last == "given up":
        without_rtx(scene, rtx, build_id)
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED
    found = rows(scene, build_id)
    assert found["l4"].reason is None
    assert found["geforce-rtx-4090"].reason == (
        "not measured on geforce-rtx-4090: no node took it within the pending limit"
    )
    assert report(scene, build_id).measurement_labels == [UNMEASURED_SKU]
    manifest = scene.verified(artifact(scene, build_id).digest).manifest
    assert manifest.annotations[LABELS] == UNMEASURED_SKU


def test_a_gate_is_not_met_where_it_could_not_be_measured(
    scene: Scene, l4: SkuNode, rtx: SkuNode
) -> None:
    small = {"metric": "engine_bytes", "at_most": 1 << 30}
    build_id = compiled(scene, l4, *SKUS, gates=[ACCURATE, small])
    measure(scene, l4, scene.on_skus(build_id, GPU)["l4"])
    without_rtx(scene, rtx, build_id)
    assert artifact(scene, build_id).state is ArtifactState.QUARANTINED
    accurate, size = report(scene, build_id).gates
    assert (accurate.met, accurate.value) == (False, None)
    assert "not measured on geforce-rtx-4090" in (accurate.reason or "")
    assert (size.met, size.reason) == (True, None)


def test_a_build_that_could_be_measured_on_none_of_its_skus_fails_as_the_last_did(
    scene: Scene, l4: SkuNode, rtx: SkuNode
) -> None:
    build_id = compiled(scene, l4, *SKUS)
    for sku in SKUS:
        scene.age(scene.on_skus(build_id, GPU)[sku], "queued_at", 8 * 86_400)
    reconcile(scene.farm)
    scene.publish()
    assert scene.state(build_id) is BuildState.FAILED
    assert scene.job(build_id, Stage.PUBLISH, GPU).state is JobState.CANCELLED
    assert scene.failure(scene.on_skus(build_id, GPU)["l4"]).code == "pending_too_long"


def test_what_was_measured_on_another_gpu_than_the_one_asked_for_is_not_taken(
    scene: Scene, l4: SkuNode
) -> None:
    l4.reported = RTX
    build_id = compiled(scene, l4, "l4")
    job = scene.on_skus(build_id, GPU)["l4"]
    work = l4.take(job)
    assert work.sku == "l4"
    l4.tell(work, l4.done(work))
    scene.settle()
    (attempt,) = scene.attempts(job)
    assert (attempt.failure or {})["code"] == "result_invalid"
    assert "measured on geforce-rtx-4090 instead of l4" in (attempt.failure or {})["why"]


def test_a_sku_that_is_measured_already_is_taken_from_the_cache_and_another_is_measured(
    scene: Scene, l4: SkuNode, rtx: SkuNode
) -> None:
    first = compiled(scene, l4, "l4")
    measure(scene, l4, scene.on_skus(first, GPU)["l4"])
    scene.publish()
    second = compiled(scene, l4, *SKUS)
    jobs = scene.on_skus(second, GPU)
    assert jobs["l4"].cached_from == scene.on_skus(first, GPU)["l4"].id
    assert jobs["geforce-rtx-4090"].state is JobState.QUEUED
    with scene.farm.database.transaction() as session:
        planned = planned_steps(session, scene)
    assert planned == {"l4": "cached", "geforce-rtx-4090": "joined"}
    measure(scene, rtx, jobs["geforce-rtx-4090"])
    scene.publish()
    assert set(rows(scene, second)) == set(SKUS)
    assert artifact(scene, second).digest != artifact(scene, first).digest


def planned_steps(session: Session, scene: Scene) -> dict[str | None, str]:
    body = {"options": {"repair": {"mode": "none"}}, "measure_on": list(SKUS)}
    (target,) = plan(session, scene.tenant_id, scene.spec(GPU, **body)).targets
    return {row.sku: row.outcome for row in target.jobs if row.stage is Stage.BENCHMARK}


def test_a_measurement_is_announced_only_while_a_node_with_that_sku_has_room(
    scene: Scene, l4: SkuNode, rtx: SkuNode, valkey_url: str
) -> None:
    app = make_app(valkey_url, publisher=True)
    build_id = compiled(scene, l4, *SKUS)
    scene.mark_sent(build_id, 1_000)  # and nobody has heard them
    with scene.farm.database.transaction() as session:
        for job in scene.on_skus(build_id, GPU).values():
            outbox.add(session, job)
    rtx.alive(draining=True)
    assert dispatch(scene.farm, app) == 1
    rtx.alive()
    assert dispatch(scene.farm, app) == 1


def test_a_build_that_is_cancelled_ends_its_measurements_and_publishes_nothing(
    scene: Scene, l4: SkuNode, rtx: SkuNode
) -> None:
    build_id = compiled(scene, l4, *SKUS)
    measure(scene, l4, scene.on_skus(build_id, GPU)["l4"])
    cancel(scene.farm, scene.tenant_id, build_id)
    scene.publish()
    assert scene.state(build_id) is BuildState.CANCELLED
    assert scene.on_skus(build_id, GPU)["geforce-rtx-4090"].state is JobState.CANCELLED
    assert scene.count(Artifact) == 0


def test_a_precision_that_is_slower_on_one_sku_is_slower(
    scene: Scene, l4: SkuNode, rtx: SkuNode
) -> None:
    tool = SkuNode(scene.farm, "tool", backends=[backend(arch="cpu")], arch="cpu", gpu="cpu")
    rtx.speedup = 0.9
    build_id = scene.submit(
        GPU,
        measure_on=list(SKUS),
        precision={"kind": "fp16"},
        options={"repair": {"mode": "none"}},
    )
    for stage, node in ((Stage.CAST, tool), (Stage.COMPILE, l4)):
        scene.do(node, build_id, stage, GPU)
    scene.run_twin(l4, build_id, GPU)
    jobs = scene.on_skus(build_id, GPU)
    measure(scene, l4, jobs["l4"])
    measure(scene, rtx, jobs["geforce-rtx-4090"])
    scene.publish()
    verdict = report(scene, build_id).precision_verdict
    assert verdict is not None
    assert (verdict.verdict, verdict.held_back) == ("slower", True)
    assert verdict.reason.startswith("on geforce-rtx-4090: 0.9 times as fast")
    each = {sku: row.precision_verdict for sku, row in rows(scene, build_id).items()}
    assert {sku: row and row.verdict for sku, row in each.items()} == {
        "l4": "accept",
        "geforce-rtx-4090": "slower",
    }
