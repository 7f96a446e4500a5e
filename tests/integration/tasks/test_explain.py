"""A plan says what a submit would do and why something is built again, and writes nothing."""

from __future__ import annotations

import pytest

from enginefarm.errors import Failure, NotServed
from enginefarm.plan_views import PlannedJob, PlannedTarget
from enginefarm.state import PLAIN_STAGES, Blame, JobState, Stage
from storage.models import Job
from tasks import submit
from tasks.messages import FinishRequest
from tasks.reconciler import reconcile
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import Scene
from tests.integration.tasks.test_precisions import int8


def planned(scene: Scene, **fields: object) -> dict[Stage, PlannedJob]:
    return {job.stage: job for job in target(scene, **fields).jobs}


def target(scene: Scene, **fields: object) -> PlannedTarget:
    with scene.farm.database.transaction() as session:
        plan = submit.plan(session, scene.tenant_id, scene.spec(**fields), explain=True)
    return plan.targets[0]


def test_a_plan_names_keys_queues_and_nodes_and_writes_nothing(
    scene: Scene, node: FakeNode
) -> None:
    plan = planned(scene)

    assert plan[Stage.REPAIR].outcome == plan[Stage.COMPILE].outcome == "build"
    assert plan[Stage.COMPILE].queue == "compile.cpu"
    assert plan[Stage.COMPILE].nodes == ["node-a"]
    assert plan[Stage.BENCHMARK].key is None
    assert scene.count(Job) == 0


def test_a_plan_tells_of_calibration_data_what_its_file_says_and_then_what_the_stage_said(
    scene: Scene, node: FakeNode
) -> None:
    asked = int8(scene)

    def known() -> list[str] | None:
        with scene.farm.database.transaction() as session:
            plan = submit.plan(session, scene.tenant_id, scene.spec(**asked))
        return None if plan.calibration is None else [row.code for row in plan.calibration]

    assert known() == ["calibration_few_samples", "calibration_seen_later"]
    build_id = scene.submit(**asked)
    for stage in (Stage.REPAIR, Stage.CALIBRATE):
        scene.do(node, build_id, stage)
    assert known() == []
    asked = {}
    assert known() is None


def test_a_plan_has_the_keys_that_a_submit_then_uses(scene: Scene, node: FakeNode) -> None:
    key = planned(scene)[Stage.REPAIR].key

    assert scene.job(scene.submit(), Stage.REPAIR).key == key


def test_a_plan_tells_what_is_cached_and_what_is_joined(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    joined = planned(scene)[Stage.REPAIR]
    assert (joined.outcome, joined.source) == ("joined", scene.job(build_id, Stage.REPAIR).id)
    scene.run(node, build_id)
    scene.publish()

    cached = planned(scene)
    assert [job.outcome for job in cached.values()] == ["cached"] * len(PLAIN_STAGES)
    assert cached[Stage.PUBLISH].source == scene.job(build_id, Stage.PUBLISH).id


def test_a_miss_names_the_nearest_key_and_the_fields_that_differ(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    scene.run(node, build_id)
    scene.publish()
    changed = planned(scene, options={"benchmark": {"warmup_ms": 7}}, seed=3)[Stage.BENCHMARK]

    assert changed.miss is not None
    assert changed.miss.nearest_job == scene.job(build_id, Stage.BENCHMARK).id
    assert {row.field: (row.this, row.nearest) for row in changed.miss.differences} == {
        "options.warmup_ms": (7, 200),
        "seed": (3, 0),
    }


def test_nothing_of_another_tenant_is_near(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    scene.run(node, build_id)
    rival = Scene.on(scene.farm, "rival")
    miss = planned(rival)[Stage.REPAIR].miss

    assert miss is not None
    assert (miss.nearest_key, miss.differences) == (None, [])


def test_a_plan_refuses_what_a_submit_would_refuse(scene: Scene) -> None:
    with pytest.raises(NotServed) as refused:
        planned(scene)

    assert refused.value.code == "target_not_served"


def test_a_plan_that_waits_says_so(scene: Scene) -> None:
    waits = target(scene, wait_for_node=60)

    assert waits.backend_version is None
    assert {job.outcome for job in waits.jobs} == {"wait"}


FOUND = {"severity": "error", "code": "unsupported_operator", "message": "No such operator."}


def test_a_plan_tells_what_the_check_has_found_before(scene: Scene, node: FakeNode) -> None:
    assert target(scene).findings is None
    build_id = scene.submit(until="check")
    scene.do(node, build_id, Stage.CHECK)

    assert target(scene).findings == []
    assert target(scene, options={"compile": {"graph_optimization": "all"}}).findings is None


def test_a_plan_tells_what_stopped_the_check_before(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    scene.do(node, build_id, Stage.REPAIR)
    work = node.take(scene.job(build_id, Stage.CHECK))
    failure = Failure(
        code="unsupported_operator",
        blame=Blame.PERSON,
        message="It cannot be built.",
        context={"findings": [FOUND]},
    )
    node.tell(
        work,
        FinishRequest(
            attempt=work.attempt,
            lease_token=work.lease_token,
            state=JobState.FAILED,
            failure=failure,
        ),
    )

    (found,) = target(scene).findings or []
    assert (found.severity, found.code) == ("error", "unsupported_operator")


def test_a_plan_tells_the_memory_that_a_build_like_it_took(scene: Scene, node: FakeNode) -> None:
    node.took = {Stage.REPAIR: 5 << 30}
    build_id = scene.submit()
    scene.run(node, build_id)
    assert planned(scene)[Stage.REPAIR].memory_bytes is None  # it comes from the cache
    scene.withdraw(build_id)

    assert planned(scene)[Stage.REPAIR].memory_bytes == 5 << 30
    scene.silence(node.node_id, 3600)
    reconcile(scene.farm)
    FakeNode(scene.farm, "small", memory_bytes=4 << 30)
    with pytest.raises(NotServed, match="5120 MiB"):
        planned(scene)
    waits = planned(scene, wait_for_node=60)[Stage.REPAIR]
    assert (waits.outcome, waits.nodes) == ("wait", [])
