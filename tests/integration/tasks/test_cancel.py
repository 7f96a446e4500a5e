"""A cancelled build leaves nothing to do, and takes nothing from the builds that share its work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from enginefarm.errors import NotFound, Unavailable
from enginefarm.state import PLAIN_STAGES, BuildState, JobState, Stage
from storage.models import Artifact
from tasks.cancel import cancel
from tasks.publish import publish_due
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.faults import away, faulty
from tests.integration.tasks.scene import Scene


def test_a_cancelled_build_leaves_nothing_to_do(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    cancel(scene.farm, scene.tenant_id, build_id)
    assert scene.state(build_id) is BuildState.CANCELLED
    assert scene.states(build_id) == [JobState.CANCELLED] * len(PLAIN_STAGES)
    assert node.ask(scene.job(build_id, Stage.REPAIR)).declined == "cancelled"


def test_a_running_job_hears_of_the_cancel_with_its_next_beat(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    assert node.beat(work).cancel is False
    cancel(scene.farm, scene.tenant_id, build_id)
    assert node.beat(work).cancel is True
    assert node.end(work, JobState.CANCELLED) is JobState.CANCELLED
    assert scene.states(build_id) == [JobState.CANCELLED] * len(PLAIN_STAGES)
    assert scene.attempts(scene.job(build_id, Stage.REPAIR))[0].state is JobState.CANCELLED


def test_a_failure_after_the_cancel_is_no_failure_and_is_not_tried_again(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    cancel(scene.farm, scene.tenant_id, build_id)
    assert node.end(work, JobState.FAILED) is JobState.CANCELLED


def test_work_that_others_joined_runs_on(scene: Scene, node: FakeNode) -> None:
    first, second = scene.submit(), scene.submit()
    work = node.take(scene.job(first, Stage.REPAIR))
    cancel(scene.farm, scene.tenant_id, first)
    assert scene.state(first) is BuildState.CANCELLED
    job = scene.job(first, Stage.REPAIR)
    assert (job.state, job.note) == (JobState.RUNNING, "runs on: another build waits for it")
    assert node.beat(work).cancel is False
    node.tell(work, node.done(work))
    scene.settle()
    assert scene.job(second, Stage.REPAIR).state is JobState.SUCCEEDED
    scene.run(node, second)
    scene.publish()
    assert scene.state(second) is BuildState.SUCCEEDED
    assert scene.state(first) is BuildState.CANCELLED
    assert scene.job(first, Stage.COMPILE).state is JobState.CANCELLED


def test_joined_work_stops_once_the_last_build_that_wants_it_is_cancelled(
    scene: Scene, node: FakeNode
) -> None:
    first, second = scene.submit(), scene.submit()
    work = node.take(scene.job(first, Stage.REPAIR))
    cancel(scene.farm, scene.tenant_id, first)
    cancel(scene.farm, scene.tenant_id, second)
    assert node.beat(work).cancel is True
    assert scene.states(second) == [JobState.CANCELLED] * len(PLAIN_STAGES)


def test_cancelling_the_build_that_joined_leaves_its_leader_alone(
    scene: Scene, node: FakeNode
) -> None:
    first, second = scene.submit(), scene.submit()
    cancel(scene.farm, scene.tenant_id, second)
    scene.run(node, first)
    scene.publish()
    assert scene.state(first) is BuildState.SUCCEEDED
    assert scene.state(second) is BuildState.CANCELLED


def test_a_build_submitted_while_the_same_work_is_being_stopped_is_built_all_the_same(
    scene: Scene, node: FakeNode
) -> None:
    first = scene.submit()
    work = node.take(scene.job(first, Stage.REPAIR))
    cancel(scene.farm, scene.tenant_id, first)
    second = scene.submit()
    node.end(work, JobState.CANCELLED)
    assert scene.job(second, Stage.REPAIR).state is JobState.QUEUED
    scene.run(node, second)
    scene.publish()
    assert scene.state(second) is BuildState.SUCCEEDED


def test_a_build_that_has_ended_stays_as_it_is(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    scene.run(node, build_id)
    scene.publish()
    cancel(scene.farm, scene.tenant_id, build_id)
    assert scene.state(build_id) is BuildState.SUCCEEDED


def test_nothing_is_published_for_a_build_cancelled_on_the_way(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    scene.run(node, build_id)
    cancel(scene.farm, scene.tenant_id, build_id)
    scene.publish()
    assert scene.count(Artifact) == 0
    assert scene.job(build_id, Stage.PUBLISH).state is JobState.CANCELLED


def test_another_tenants_build_cannot_be_cancelled(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    with pytest.raises(NotFound) as refused:
        cancel(scene.farm, Scene.on(scene.farm, "rival").tenant_id, build_id)
    assert refused.value.code == "unknown_build"
    assert scene.state(build_id) is BuildState.RUNNING


def test_cancel_and_claim_at_once_agree_on_one_order(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    job = scene.job(build_id, Stage.REPAIR)
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(node.ask, job)
        pool.submit(cancel, scene.farm, scene.tenant_id, build_id).result()
        work = asked.result().assignment
    assert work is None or node.beat(work).cancel is True
    assert scene.state(build_id) is BuildState.CANCELLED


def test_a_job_cancelled_while_it_ran_is_not_tried_again_for_a_bad_upload(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    cancel(scene.farm, scene.tenant_id, build_id)
    message = node.done(work, upload=False)
    lost = [row.model_copy(update={"digest": "sha256:" + "0" * 64}) for row in message.outputs]
    node.tell(work, message.model_copy(update={"outputs": lost}))
    scene.settle()
    assert scene.job(build_id, Stage.REPAIR).state is JobState.CANCELLED
    assert len(scene.rings(build_id)) == 1


def test_publishing_that_was_cancelled_is_not_tried_again_when_the_bucket_is_away(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    scene.run(node, build_id)

    def cancelled_then_away(digest: str) -> Unavailable:
        cancel(scene.farm, scene.tenant_id, build_id)
        return away(digest)

    publish_due(faulty(scene.farm, cancelled_then_away), scene.signer)
    assert scene.job(build_id, Stage.PUBLISH).state is JobState.CANCELLED
