"""A bucket that is away is nobody's fault; a way to it that is broken is its node's."""

from __future__ import annotations

import pytest

from enginefarm.errors import Unavailable
from enginefarm.state import Blame, JobState, NodeState, Stage
from tasks.messages import BUCKET_AWAY
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import Scene


def test_a_node_that_alone_does_not_reach_the_bucket_goes_out_of_service(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    for number in range(scene.farm.policy.node_faults):
        assert scene.node(node.node_id).state is NodeState.ACTIVE, number
        work = node.take(scene.job(build_id, Stage.REPAIR))
        assert node.fail(work, BUCKET_AWAY, Blame.FARM) is JobState.QUEUED

    row = scene.node(node.node_id)
    assert row.state is NodeState.OUT_OF_SERVICE
    assert "path to the bucket is broken" in (row.note or "")
    assert node.alive().drain
    other = FakeNode(scene.farm, "node-b")
    scene.run(other, build_id)
    job = scene.job(build_id, Stage.REPAIR)
    assert (job.state, job.failures) == (JobState.SUCCEEDED, 0)
    node.start_again()
    assert (scene.node(node.node_id).state, scene.node(node.node_id).note) == (
        NodeState.ACTIVE,
        None,
    )


def test_what_every_node_meets_on_its_way_to_the_bucket_is_no_nodes_fault(
    scene: Scene, node: FakeNode
) -> None:
    both = [node, FakeNode(scene.farm, "node-b")]
    build_id = scene.submit()
    for _ in range(scene.farm.policy.node_faults + 1):
        for each in both:
            each.fail(each.take(scene.job(build_id, Stage.REPAIR)), BUCKET_AWAY, Blame.FARM)

    assert [scene.node(each.node_id).state for each in both] == [NodeState.ACTIVE] * 2


def test_a_bucket_that_nobody_reaches_is_no_fault_of_the_nodes(
    scene: Scene, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        message = "The bucket does not answer."
        raise Unavailable(message, code=BUCKET_AWAY)

    monkeypatch.setattr(scene.bucket, "ping", away)
    build_id = scene.submit()
    for _ in range(scene.farm.policy.node_faults + 1):
        node.fail(node.take(scene.job(build_id, Stage.REPAIR)), BUCKET_AWAY, Blame.FARM)

    assert scene.node(node.node_id).state is NodeState.ACTIVE


def test_one_job_done_ends_the_count_of_a_node_that_missed_the_bucket(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    for _ in range(scene.farm.policy.node_faults - 1):
        node.fail(node.take(scene.job(build_id, Stage.REPAIR)), BUCKET_AWAY, Blame.FARM)
    scene.do(node, build_id, Stage.CHECK)

    assert scene.node(node.node_id).bucket_faults == 0
