"""What crashed or fell silent is noticed and repaired; what is healthy is left alone."""

from __future__ import annotations

import pytest

from enginefarm.errors import InvalidRequest, LeaseLost, NotServed, Unauthenticated
from enginefarm.state import Blame, BuildState, JobState, NodeState, Stage
from storage import nodes
from storage.models import Artifact
from tasks import enrol
from tasks.cancel import cancel
from tasks.publish import _take
from tasks.reconciler import reconcile
from tests.integration.tasks.fake_node import FakeNode, backend
from tests.integration.tasks.scene import CPU, Scene

GPU = "onnxruntime@sm_89"


def test_a_lapsed_lease_gives_the_job_to_another_attempt(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    job = scene.job(build_id, Stage.REPAIR)
    old = node.take(job)
    scene.age(job, "lease_until", 1)
    reconcile(scene.farm)
    job = scene.job(build_id, Stage.REPAIR)
    assert (job.state, job.attempt, job.failures) == (JobState.QUEUED, 2, 1)
    assert (scene.attempts(job)[0].failure or {})["code"] == "node_lost"
    assert [ring.attempt for ring in scene.rings(build_id)] == [1, 2]
    message = node.done
    new = FakeNode(scene.farm, "node-b")
    for moment in ("queued", "given to another"):
        if moment == "given to another":
            work = new.take(job)
        for speak in (
            lambda: node.beat(old),
            lambda: node.places(old),
            lambda: node.end(old, JobState.FAILED),
            lambda: node.tell(old, message(old)),
        ):
            with pytest.raises(LeaseLost) as refused:
                speak()
            assert refused.value.code == "lease_lost"
    assert new.tell(work, new.done(work)) is JobState.UPLOADED


def test_a_beat_keeps_the_lease_the_log_and_the_progress(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    job = scene.job(build_id, Stage.REPAIR)
    work = node.take(job)
    scene.age(job, "lease_until", 1)
    node.beat(work, log="one ")
    node.beat(work, log="two")
    reconcile(scene.farm)
    job = scene.job(build_id, Stage.REPAIR)
    assert (job.state, job.attempt) == (JobState.RUNNING, 1)
    assert scene.attempts(job)[0].log_tail == "one two"
    assert scene.farm.progress.latest([job.id])[job.id]["fraction"] == 0.5


def test_a_token_speaks_for_its_own_node_only(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    with pytest.raises(LeaseLost):
        FakeNode(scene.farm, "node-b").beat(work)
    with pytest.raises(LeaseLost):
        node.beat(work.model_copy(update={"lease_token": "guessed"}))
    assert node.beat(work).cancel is False


def test_an_end_told_twice_is_answered_the_same_whatever_came_of_the_job_since(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    assert node.fail(work, "child_crashed", Blame.NODE) is JobState.QUEUED
    node.take(scene.job(build_id, Stage.REPAIR))
    assert scene.job(build_id, Stage.REPAIR).attempt == work.attempt + 1

    assert node.fail(work, "child_crashed", Blame.NODE) is JobState.QUEUED
    assert scene.job(build_id, Stage.REPAIR).state is JobState.RUNNING
    assert scene.job(build_id, Stage.REPAIR).failures == 1


def test_a_node_back_from_the_dead_is_told_that_its_attempt_is_no_longer_its_own(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    scene.age(scene.job(build_id, Stage.REPAIR), "lease_until", 1)
    reconcile(scene.farm)

    with pytest.raises(LeaseLost):
        node.tell(work, node.done(work, upload=False))
    assert scene.job(build_id, Stage.REPAIR).failures == 1


def test_a_node_that_dies_with_a_cancelled_job_ends_it(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    job = scene.job(build_id, Stage.REPAIR)
    node.take(job)
    cancel(scene.farm, scene.tenant_id, build_id)
    scene.age(job, "lease_until", 1)
    reconcile(scene.farm)
    assert scene.job(build_id, Stage.REPAIR).state is JobState.CANCELLED


def test_a_publisher_that_dies_is_followed_by_another(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    scene.run(node, build_id)
    job = scene.job(build_id, Stage.PUBLISH)
    assert _take(scene.farm, job.id) is not None
    scene.publish()
    assert scene.count(Artifact) == 0
    scene.age(job, "lease_until", 1)
    reconcile(scene.farm)
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED
    assert [row.state for row in scene.attempts(job)] == [JobState.FAILED, JobState.SUCCEEDED]


def test_reconciling_a_healthy_farm_changes_nothing(scene: Scene, node: FakeNode) -> None:
    build_id, joined = scene.submit(), scene.submit()
    scene.do(node, build_id, Stage.CHECK)
    before = [scene.states(build_id), scene.states(joined), len(scene.events(build_id))]
    rings = len(scene.rings(build_id))
    reconcile(scene.farm)
    reconcile(scene.farm)
    assert [scene.states(build_id), scene.states(joined), len(scene.events(build_id))] == before
    assert len(scene.rings(build_id)) == rings


def test_a_ring_that_nobody_heard_is_repeated(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    scene.mark_sent(build_id, scene.farm.policy.ring_again_s + 1)
    reconcile(scene.farm)
    reconcile(scene.farm)
    assert [ring.sent_at is None for ring in scene.rings(build_id)] == [False, True]


def test_a_job_that_no_node_took_in_time_expires(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit(limits={"pending_s": 60})
    joined = scene.submit()
    job = scene.job(build_id, Stage.REPAIR)
    scene.age(job, "queued_at", 61)
    reconcile(scene.farm)
    assert scene.job(build_id, Stage.REPAIR).state is JobState.EXPIRED
    assert scene.failure(job).code == "pending_too_long"
    assert scene.state(build_id) is BuildState.FAILED
    # The clock was that build's own: who had joined it starts for itself.
    assert scene.job(joined, Stage.REPAIR).state is JobState.QUEUED


def test_a_target_that_nobody_serves_is_refused_and_the_missing_capability_named(
    scene: Scene, node: FakeNode
) -> None:
    with pytest.raises(NotServed) as refused:
        scene.submit(CPU, GPU)
    assert refused.value.context["missing"] == "no live node's onnxruntime builds for sm_89"
    with pytest.raises(NotServed) as refused:
        scene.submit("tensorrt-rtx@sm_89")
    assert refused.value.context["missing"] == "no live node has the backend tensorrt-rtx"
    assert "live backends: onnxruntime" in refused.value.why


def test_a_build_may_wait_for_a_node_and_starts_when_it_enrols(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit(GPU, wait_for_node=3600)
    assert scene.state(build_id) is BuildState.PENDING
    reconcile(scene.farm)
    assert set(scene.states(build_id, GPU)) == {JobState.WAITING}
    late = FakeNode(scene.farm, "node-gpu", [backend("2.0", arch="sm_89")])
    reconcile(scene.farm)
    job = scene.job(build_id, Stage.REPAIR, GPU)
    assert (job.state, job.backend_version) == (JobState.QUEUED, "2.0")
    scene.run(late, build_id, GPU)
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED


def test_a_build_that_waited_in_vain_expires_after_its_window(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit(GPU, wait_for_node=60)
    job = scene.job(build_id, Stage.REPAIR, GPU)
    scene.age(job, "wait_until", 1)
    reconcile(scene.farm)
    assert scene.job(build_id, Stage.REPAIR, GPU).state is JobState.EXPIRED
    assert scene.failure(job).code == "no_node_in_time"
    assert scene.state(build_id) is BuildState.FAILED


def test_a_node_that_came_but_cannot_measure_leaves_the_artifact_unmeasured(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit(GPU, wait_for_node=60)
    late = FakeNode(scene.farm, "node-gpu", [backend(arch="sm_89", measures=False)])
    reconcile(scene.farm)
    scene.run(late, build_id, GPU)
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED
    assert Stage.BENCHMARK not in scene.jobs(build_id, GPU)


def test_a_gate_that_nobody_can_measure_is_refused_or_waited_for(
    scene: Scene, node: FakeNode
) -> None:
    builder = FakeNode(scene.farm, "node-gpu", [backend(arch="sm_89", measures=False)])
    gate = {"metric": "cosine", "at_least": 0.9}
    with pytest.raises(InvalidRequest) as refused:
        scene.submit(GPU, gates=[gate])
    assert refused.value.code == "gate_unmeasurable"
    waits = gate | {"if_unmeasured": "wait"}
    build_id = scene.submit(GPU, gates=[waits], wait_for_node=3600)
    scene.run(builder, build_id, GPU)
    reconcile(scene.farm)
    assert scene.job(build_id, Stage.BENCHMARK, GPU).state is JobState.WAITING
    runner = FakeNode(scene.farm, "node-gpu-2", [backend(arch="sm_89")])
    reconcile(scene.farm)
    scene.run(runner, build_id, GPU)
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED


def test_a_node_without_the_version_is_declined_and_the_ring_repeated_later(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    older = FakeNode(scene.farm, "node-old", [backend("1.0.0")])
    job = scene.job(build_id, Stage.REPAIR)
    assert older.ask(job).declined == "incapable"
    first, second = scene.rings(build_id)
    assert second.attempt == first.attempt == 1
    pause = (second.not_before - second.created_at).total_seconds()
    assert pause == pytest.approx(scene.farm.policy.decline_pause_s, abs=1)
    assert node.ask(job).assignment is not None


def test_a_build_is_planned_for_the_newest_version(scene: Scene, node: FakeNode) -> None:
    FakeNode(scene.farm, "node-b", [backend("1.10.0")])
    FakeNode(scene.farm, "node-c", [backend("1.9.0")])
    assert scene.job(scene.submit(), Stage.REPAIR).backend_version == "1.10.0"


def test_a_draining_node_is_given_no_work(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    node.alive(draining=True)
    assert node.ask(scene.job(build_id, Stage.REPAIR)).declined == "incapable"
    with pytest.raises(NotServed):
        scene.submit(seed=1)
    node.alive()
    assert node.ask(scene.job(build_id, Stage.REPAIR)).assignment is not None


def test_a_silent_node_is_offline_until_it_speaks_again(scene: Scene, node: FakeNode) -> None:
    scene.silence(node.node_id, scene.farm.policy.node_silent_s + 1)
    reconcile(scene.farm)
    with pytest.raises(NotServed):
        scene.submit()
    node.alive()
    assert scene.state(scene.submit()) is BuildState.RUNNING
    with scene.farm.database.transaction() as session:
        assert [row.state for row in nodes.everyone(session)] == [NodeState.ACTIVE]


def test_a_node_that_enrols_again_loses_its_earlier_credential(
    scene: Scene, node: FakeNode
) -> None:
    before, old = node.node_id, node.credential or ""
    node.start_again()
    assert node.node_id == before
    for credential in (old, f"en_{node.node_id}_{'0' * 64}", "en_nobody", "", "en_x_y_z"):
        with pytest.raises(Unauthenticated) as refused:
            enrol.authenticate(scene.farm, credential)
        assert refused.value.code == "node_unknown"
