"""A node that starts again, loses a job, or fails again and again costs no job its time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import select

from enginefarm.errors import Conflict, TooLarge
from enginefarm.state import Blame, JobState, NodeState, Stage
from storage.models import Attempt, Node
from tasks import enrol
from tasks.messages import Assignment, BackendDescription, Device, EnrolRequest, NodeBeat
from tasks.reconciler import reconcile
from tests.integration.tasks.fake_node import FakeNode, description
from tests.integration.tasks.scene import Scene
from workers.gpu.serving import without

MINE = "one-process-of-the-node-" + "m" * 20


def row_of(scene: Scene, node: FakeNode) -> Node:
    with scene.farm.database.transaction() as session:
        return session.scalars(select(Node).where(Node.id == node.node_id)).one()


def test_what_a_node_ran_before_it_started_again_is_tried_again_at_once(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    node.take(scene.job(build_id, Stage.REPAIR))
    node.start_again()
    reconcile(scene.farm)

    job = scene.job(build_id, Stage.REPAIR)
    assert (job.state, job.attempt) == (JobState.QUEUED, 2)


def test_a_node_whose_enrolment_was_not_answered_may_enrol_again(
    scene: Scene, node: FakeNode
) -> None:
    known = node.credential
    node.start_again()
    for _ in range(2):  # and a second time: the answer to a repeat may be lost, too
        node.credential = known
        node.start_again()

    node.alive()
    assert node.credential != known


def test_a_description_that_is_longer_than_any_node_needs_is_refused(
    scene: Scene, node: FakeNode
) -> None:
    long = node.described().model_copy(update={"cpu": "x" * enrol.MOST_DESCRIPTION_BYTES})
    with pytest.raises(TooLarge):
        enrol.enrol(scene.farm, EnrolRequest(name="node-b", description=long))
    with pytest.raises(TooLarge):
        enrol.beat(scene.farm, node.node_id, NodeBeat(description=long))

    assert row_of(scene, node).description["cpu"] == node.described().cpu


def test_a_name_is_free_again_when_its_node_is_silent(scene: Scene, node: FakeNode) -> None:
    with pytest.raises(Conflict) as refused:
        FakeNode(scene.farm, node.name)
    assert refused.value.code == "node_name_taken"
    scene.silence(node.node_id, scene.farm.policy.node_silent_s + 1)

    assert FakeNode(scene.farm, node.name).node_id == node.node_id


def test_a_claim_whose_answer_was_lost_is_given_its_job_again_and_no_other_is(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    job, other = scene.job(build_id, Stage.REPAIR), FakeNode(scene.farm, "node-b")
    first = node.ask(job, MINE).assignment
    scene.age(job, "started_at", 3600)
    assert other.ask(job, MINE).declined == "running"
    assert node.ask(job, "another-process-of-the-node-" + "x" * 20).declined == "running"
    assert node.ask(job).declined == "running"
    again = node.ask(job, MINE).assignment
    assert again is not None
    assert first is not None
    assert again.lease_token == first.lease_token
    assert (again.job_id, again.attempt, again.inputs) == (job.id, job.attempt, first.inputs)

    node.alive(running=[])  # the list was made before the answer came
    reconcile(scene.farm)
    assert node.tell(again, node.done(again)) is JobState.UPLOADED
    scene.settle()
    assert [row.state for row in scene.attempts(job)] == [JobState.SUCCEEDED]
    assert node.ask(job, MINE).declined == "succeeded"


def test_a_claim_is_not_given_its_job_again_when_a_lease_is_over(
    scene: Scene, node: FakeNode
) -> None:
    job = scene.job(scene.submit(), Stage.REPAIR)
    assert node.ask(job, MINE).assignment is not None
    with scene.farm.database.transaction() as session:
        attempt = session.get_one(Attempt, (job.id, job.attempt))
        attempt.started_at -= timedelta(seconds=scene.farm.policy.lease_s + 1)
    assert node.ask(job, MINE).declined == "running"


def test_a_job_that_a_living_node_no_longer_has_is_tried_again(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    scene.age(scene.job(build_id, Stage.REPAIR), "started_at", 3600)
    node.alive(running=[work])
    reconcile(scene.farm)
    assert scene.job(build_id, Stage.REPAIR).state is JobState.RUNNING

    node.alive(running=[])
    reconcile(scene.farm)
    assert scene.job(build_id, Stage.REPAIR).state is JobState.QUEUED


def test_a_job_that_was_just_claimed_is_not_yet_missed(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    node.take(scene.job(build_id, Stage.REPAIR))
    node.alive(running=[])
    reconcile(scene.farm)

    assert scene.job(build_id, Stage.REPAIR).state is JobState.RUNNING


def crash(scene: Scene, node: FakeNode) -> None:
    """Let the node spoil one attempt at a build of a model of its own."""
    build_id = scene.submit(model=scene.other())
    node.fail(node.take(scene.job(build_id, Stage.REPAIR)), "child_crashed", Blame.NODE)


def test_a_node_that_fails_again_and_again_is_taken_out_of_service_and_says_why(
    scene: Scene, node: FakeNode
) -> None:
    limit = scene.farm.policy.node_faults
    for _ in range(limit):
        assert row_of(scene, node).state is NodeState.ACTIVE
        crash(scene, node)

    found = row_of(scene, node)
    assert (found.state, found.faults) == (NodeState.OUT_OF_SERVICE, limit)
    assert found.note is not None
    assert "It did not work." in found.note
    assert node.alive().drain is True
    assert row_of(scene, node).state is NodeState.OUT_OF_SERVICE
    assert node.ask(scene.job(scene.submit(wait_for_node=60), Stage.REPAIR)).declined is not None


def test_starting_again_puts_a_node_back_into_service(scene: Scene, node: FakeNode) -> None:
    for _ in range(scene.farm.policy.node_faults):
        crash(scene, node)
    node.start_again()

    found = row_of(scene, node)
    assert (found.state, found.faults, found.note) == (NodeState.ACTIVE, 0, None)


def test_a_success_in_between_forgives(scene: Scene, node: FakeNode) -> None:
    for _ in range(scene.farm.policy.node_faults - 1):
        crash(scene, node)
    scene.do(node, scene.submit(), Stage.CHECK)
    crash(scene, node)

    found = row_of(scene, node)
    assert (found.state, found.faults) == (NodeState.ACTIVE, 1)


def test_what_the_person_did_wrong_is_not_held_against_the_node(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    node.fail(node.take(scene.job(build_id, Stage.REPAIR)), "unsupported_operator", Blame.PERSON)

    assert row_of(scene, node).faults == 0


def test_a_model_that_spoils_every_node_it_meets_is_not_held_against_them(
    scene: Scene, node: FakeNode
) -> None:
    other = FakeNode(scene.farm, "node-b")
    for _ in range(scene.farm.policy.node_faults + 1):
        build_id = scene.submit(model=scene.other())
        for each in (node, other):
            each.fail(each.take(scene.job(build_id, Stage.REPAIR)), "child_crashed", Blame.NODE)
        assert scene.job(build_id, Stage.REPAIR).state is JobState.FAILED

    assert [row_of(scene, each).state for each in (node, other)] == [NodeState.ACTIVE] * 2


def test_a_measurement_has_its_node_to_itself(scene: Scene) -> None:
    node = FakeNode(scene.farm, "node-a", slots=2)
    measured, other = scene.submit(), scene.submit(model=scene.other())
    scene.do(node, measured, Stage.CHECK)
    scene.do(node, measured, Stage.COMPILE)
    small = node.take(scene.job(other, Stage.REPAIR))
    assert node.ask(scene.job(measured, Stage.BENCHMARK)).declined == "busy"

    node.tell(small, node.done(small))
    node.take(scene.job(measured, Stage.BENCHMARK))
    third = scene.submit(model=scene.other())
    assert node.ask(scene.job(third, Stage.REPAIR)).declined == "busy"


def test_a_node_whose_gpu_is_out_takes_no_work_for_it_until_it_is_back(
    scene: Scene, node: FakeNode
) -> None:
    gpu = Device(arch="sm_90", name="H200", uuid="GPU-1")
    ort = BackendDescription(
        name="onnxruntime",
        version="1.30.0",
        builds=["cpu", "sm_90"],
        measures=["cpu", "sm_90"],
        on_device=["sm_90"],
    )
    whole = description(ort).model_copy(update={"devices": [gpu]})

    served = enrol.beat(scene.farm, node.node_id, NodeBeat(description=whole)).queues
    out = enrol.beat(
        scene.farm, node.node_id, NodeBeat(description=without(whole, {"GPU-1": "Xid 79"}))
    )

    assert {queue for queue in served if queue not in out.queues} == {
        f"{stage}.sm_90" for stage in ("repair", "check", "compile", "benchmark")
    }
    assert row_of(scene, node).description["devices"][0]["fault"] == "Xid 79"
    assert enrol.beat(scene.farm, node.node_id, NodeBeat(description=whole)).queues == served


@pytest.mark.parametrize("version", ["0.9.0", "7.0.0", "not a version"])
def test_a_node_that_is_too_far_away_in_version_is_refused(scene: Scene, version: str) -> None:
    request = EnrolRequest(
        name="far", description=description().model_copy(update={"farm_version": version})
    )
    with pytest.raises(Conflict) as refused:
        enrol.enrol(scene.farm, request)
    assert refused.value.code == "node_version_unsupported"


def test_a_node_of_the_version_before_leaves_out_what_it_does_not_know(
    scene: Scene, node: FakeNode
) -> None:
    work = node.take(scene.job(scene.submit(), Stage.REPAIR))
    newer = work.model_dump(mode="json") | {"said_by_a_later_farm": 1}

    assert Assignment.model_validate(newer) == work
