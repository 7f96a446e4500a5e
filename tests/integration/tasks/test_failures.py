"""Whose fault a failure is decides what happens next; nothing unmet or unverified is published."""

from __future__ import annotations

import pytest

from enginefarm.errors import Failure
from enginefarm.state import PLAIN_STAGES, ArtifactState, Blame, BuildState, JobState, Stage
from storage import artifacts
from storage.models import Artifact, Attestation
from tasks.failing import MOST_DOUBLINGS
from tasks.messages import BUCKET_AWAY, FARM_AWAY, FinishRequest
from tests.integration.tasks.fake_node import FakeNode, backend
from tests.integration.tasks.scene import CPU, Scene

GPU = "onnxruntime@sm_89"


def test_the_persons_failure_is_not_tried_again_and_later_stages_do_not_run(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    assert node.fail(work, "unsupported_operator", Blame.PERSON) is JobState.FAILED
    assert scene.states(build_id) == [
        JobState.FAILED,
        *[JobState.CANCELLED] * (len(PLAIN_STAGES) - 1),
    ]
    assert scene.state(build_id) is BuildState.FAILED
    assert scene.failure(scene.job(build_id, Stage.REPAIR)).code == "unsupported_operator"
    assert len(scene.rings(build_id)) == 1


def test_the_failure_of_one_target_leaves_the_others_alone(scene: Scene, node: FakeNode) -> None:
    other = FakeNode(scene.farm, "node-gpu", [backend(arch="sm_89")])
    build_id = scene.submit(CPU, GPU)
    scene.do(node, build_id, Stage.REPAIR)
    work = other.take(scene.job(build_id, Stage.CHECK, GPU))
    other.fail(work, "unsupported_operator", Blame.PERSON)
    scene.run(node, build_id)
    scene.publish()
    assert scene.states(build_id) == [JobState.SUCCEEDED] * len(PLAIN_STAGES)
    assert scene.state(build_id) is BuildState.PARTIAL


def test_who_joined_work_that_failed_is_told_the_same_failure(scene: Scene, node: FakeNode) -> None:
    first, second = scene.submit(), scene.submit()
    node.fail(node.take(scene.job(first, Stage.REPAIR)), "unsupported_operator", Blame.PERSON)
    assert scene.failure(scene.job(second, Stage.REPAIR)).code == "unsupported_operator"
    assert scene.state(first) is scene.state(second) is BuildState.FAILED


@pytest.mark.parametrize("blame", [Blame.NODE, Blame.FARM])
def test_a_failure_that_is_not_the_persons_is_tried_again_up_to_the_limit(
    scene: Scene, node: FakeNode, blame: Blame
) -> None:
    build_id = scene.submit()
    limit = scene.farm.policy.max_attempts
    for attempt in range(1, limit + 1):
        job = scene.job(build_id, Stage.REPAIR)
        assert (job.state, job.attempt) == (JobState.QUEUED, attempt)
        node.fail(node.take(job), "device_lost", blame)
    job = scene.job(build_id, Stage.REPAIR)
    assert (job.state, scene.failure(job).code) == (JobState.FAILED, "device_lost")
    assert scene.failure(job).context["attempts"] == limit
    assert [row.state for row in scene.attempts(job)] == [JobState.FAILED] * limit


def test_a_bucket_that_is_away_is_held_against_nobody_however_often_it_is_met(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    for _ in range(scene.farm.policy.max_attempts + 1):
        work = node.take(scene.job(build_id, Stage.REPAIR))
        assert node.fail(work, BUCKET_AWAY, Blame.FARM) is JobState.QUEUED
    job = scene.job(build_id, Stage.REPAIR)
    assert job.failures == 0
    scene.run(node, build_id)
    scene.publish()

    assert scene.state(build_id) is BuildState.SUCCEEDED
    pauses = [(ring.not_before - ring.created_at).total_seconds() for ring in scene.rings(build_id)]
    assert max(pauses) <= scene.farm.policy.retry_backoff_s * 2**MOST_DOUBLINGS + 1


def test_a_node_that_says_the_farm_was_away_is_held_to_account_as_for_any_failure(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    for _ in range(scene.farm.policy.max_attempts):
        node.fail(node.take(scene.job(build_id, Stage.REPAIR)), FARM_AWAY, Blame.FARM)
    job = scene.job(build_id, Stage.REPAIR)

    assert (job.state, scene.failure(job).blame) == (JobState.FAILED, Blame.NODE)


def test_a_failure_too_long_to_be_told_is_not_told(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    failure = Failure(code="stage_error", blame=Blame.NODE, message="x" * (1 << 20))
    message = FinishRequest(
        attempt=work.attempt,
        lease_token=work.lease_token,
        state=JobState.FAILED,
        failure=failure,
    )
    node.tell(work, message)

    (attempt,) = scene.attempts(scene.job(build_id, Stage.REPAIR))
    assert (attempt.failure or {})["code"] == "result_invalid"


def test_another_attempt_waits_longer_each_time(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    for _ in range(2):
        node.fail(node.take(scene.job(build_id, Stage.REPAIR)), "device_lost", Blame.NODE)
    waits = [(ring.not_before - ring.created_at).total_seconds() for ring in scene.rings(build_id)]
    pause = scene.farm.policy.retry_backoff_s
    assert waits == pytest.approx([0, pause, 2 * pause], abs=1)


def test_a_job_handed_back_by_a_leaving_node_counts_as_nobodys_failure(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    assert node.end(work, JobState.QUEUED) is JobState.QUEUED
    job = scene.job(build_id, Stage.REPAIR)
    assert (job.attempt, job.failures) == (2, 0)


def test_a_node_without_room_is_held_against_nobody_however_often_it_is_met(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    times = scene.farm.policy.max_attempts + scene.farm.policy.node_faults
    for number in range(1, times + 1):
        work = node.take(scene.job(build_id, Stage.REPAIR))
        code = "scratch_full" if number % 2 else "device_busy"
        assert node.fail(work, code, Blame.NODE) is JobState.QUEUED
        job = scene.job(build_id, Stage.REPAIR)
        assert (job.attempt, job.failures) == (number + 1, 0)
    scene.run(node, build_id)
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED


def test_a_node_without_room_is_tried_after_another(scene: Scene, node: FakeNode) -> None:
    second = FakeNode(scene.farm, "node-b")
    build_id = scene.submit()
    node.fail(node.take(scene.job(build_id, Stage.REPAIR)), "scratch_full", Blame.NODE)
    assert node.ask(scene.job(build_id, Stage.REPAIR)).declined == "failed here before"
    assert second.ask(scene.job(build_id, Stage.REPAIR)).assignment is not None


def test_a_blob_that_was_never_uploaded_is_made_again_and_never_signed(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    scene.do(node, build_id, Stage.CHECK)
    work = node.take(scene.job(build_id, Stage.COMPILE))
    node.tell(work, node.done(work, upload=False))
    scene.settle()
    job = scene.job(build_id, Stage.COMPILE)
    assert (job.state, job.attempt, job.failures) == (JobState.QUEUED, 2, 1)
    scene.publish()
    assert scene.count(Attestation) == 0
    first = scene.attempts(job)[0]
    assert first.state is JobState.FAILED
    assert (first.failure or {})["code"] == "blob_missing"


def test_a_blob_that_is_shorter_than_announced_is_made_again(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    message = node.done(work)
    longer = [file.model_copy(update={"size": file.size + 1}) for file in message.outputs]
    node.tell(work, message.model_copy(update={"outputs": longer}))
    scene.settle()
    job = scene.job(build_id, Stage.REPAIR)
    assert (job.state, job.attempt) == (JobState.QUEUED, 2)
    assert (scene.attempts(job)[0].failure or {})["code"] == "blob_size"


def test_blobs_that_stay_missing_fail_the_job_as_the_nodes_fault(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    for _ in range(scene.farm.policy.max_attempts):
        work = node.take(scene.job(build_id, Stage.REPAIR))
        message = node.done(work, upload=False)
        lost = [row.model_copy(update={"digest": "sha256:" + "0" * 64}) for row in message.outputs]
        node.places(work, *lost)
        node.tell(work, message.model_copy(update={"outputs": lost}))
        scene.settle()
    failure = scene.failure(scene.job(build_id, Stage.REPAIR))
    assert (failure.code, failure.blame) == ("blob_missing", Blame.NODE)


@pytest.mark.parametrize(
    "change",
    [{"outputs": []}, {"facts": {}}, {"facts": {"compile": {"seconds": "soon"}}}],
    ids=["no engine", "no report", "a report that is none"],
)
def test_a_success_without_what_the_stage_must_make_is_the_nodes_failure(
    scene: Scene, node: FakeNode, change: dict[str, object]
) -> None:
    build_id = scene.submit()
    scene.do(node, build_id, Stage.CHECK)
    work = node.take(scene.job(build_id, Stage.COMPILE))
    node.tell(work, node.done(work).model_copy(update=change))
    scene.settle()
    job = scene.job(build_id, Stage.COMPILE)
    assert (job.state, job.failures) == (JobState.QUEUED, 1)
    assert (scene.attempts(job)[0].failure or {})["code"] == "result_invalid"


def test_an_artifact_that_misses_a_gate_is_quarantined_and_its_job_failed(
    scene: Scene, farm_gates: list[dict[str, object]], node: FakeNode
) -> None:
    node.cosine = 0.5
    build_id = scene.submit(gates=farm_gates)
    scene.run(node, build_id)
    scene.publish()
    job = scene.job(build_id, Stage.PUBLISH)
    failure = scene.failure(job)
    assert (job.state, failure.code, failure.blame) == (
        JobState.FAILED,
        "gate_not_met",
        Blame.PERSON,
    )
    assert "cosine >= 0.99" in failure.why
    assert "0.5" in failure.why
    with scene.farm.database.transaction() as session:
        row = artifacts.get(session, scene.tenant_id, (job.result or {})["artifact"])
    assert row.state is ArtifactState.QUARANTINED
    assert scene.state(build_id) is BuildState.FAILED


def test_an_artifact_that_meets_its_gates_is_published_with_the_verdicts(
    scene: Scene, farm_gates: list[dict[str, object]], node: FakeNode
) -> None:
    build_id = scene.submit(gates=farm_gates)
    scene.run(node, build_id)
    scene.publish()
    digest = (scene.job(build_id, Stage.PUBLISH).result or {})["artifact"]
    assert scene.verified(digest).statement.build_definition["externalParameters"]["gates"] == [  # type: ignore[index,call-overload]
        "cosine >= 0.99"
    ]
    with scene.farm.database.transaction() as session:
        report = artifacts.get(session, scene.tenant_id, digest).report or {}
    assert [(row["value"], row["met"]) for row in report["gates"]] == [(0.9999, True)]


def test_a_quarantined_artifact_is_no_hit_for_the_next_build(
    scene: Scene, farm_gates: list[dict[str, object]], node: FakeNode
) -> None:
    node.cosine = 0.5
    first = scene.submit(gates=farm_gates)
    scene.run(node, first)
    scene.publish()
    second = scene.submit(gates=farm_gates)
    scene.publish()
    assert scene.state(second) is BuildState.FAILED
    assert scene.count(Artifact) == 2


@pytest.fixture
def farm_gates() -> list[dict[str, object]]:
    return [{"metric": "cosine", "at_least": 0.99}]


def test_another_node_is_tried_before_the_one_that_failed_and_two_are_enough(
    scene: Scene, node: FakeNode
) -> None:
    other = FakeNode(scene.farm, "node-b")
    build_id = scene.submit()
    node.fail(node.take(scene.job(build_id, Stage.REPAIR)), "device_lost", Blame.NODE)
    job = scene.job(build_id, Stage.REPAIR)
    assert node.ask(job).declined == "failed here before"
    assert other.fail(other.take(job), "device_lost", Blame.NODE) is JobState.FAILED
    assert scene.failure(job).context["nodes"] == 2


@pytest.mark.parametrize(("asked", "blame"), [(1, Blame.PERSON), (None, Blame.NODE)])
def test_silence_is_held_against_a_node_only_by_the_operators_own_clock(
    scene: Scene, node: FakeNode, asked: int | None, blame: Blame
) -> None:
    build_id = scene.submit(limits={"silent_s": asked} if asked else {})
    node.fail(node.take(scene.job(build_id, Stage.REPAIR)), "silent_limit", Blame.NODE)
    job = scene.job(build_id, Stage.REPAIR)

    assert (scene.attempts(job)[0].failure or {})["blame"] == blame
    wanted = JobState.FAILED if blame is Blame.PERSON else JobState.QUEUED
    assert (job.state, scene.node(node.node_id).faults) == (wanted, int(blame is Blame.NODE))
