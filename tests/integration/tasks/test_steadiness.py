"""What holds when nodes lie or break, when parts of the farm are away, when code crashes."""

from __future__ import annotations

import pytest

from enginefarm.digest import digest_of
from enginefarm.manifest import LOG_TYPE
from enginefarm.state import Blame, BuildState, JobState, Stage
from storage import blobs
from storage.database import now
from storage.models import Artifact, Job
from tasks.messages import FinishRequest, OutputFile
from tasks.publish import publish_due
from tasks.settle import settle_due
from tests.integration.tasks.fake_node import FakeNode, backend
from tests.integration.tasks.faults import away, crash, faulty
from tests.integration.tasks.scene import Scene


def test_another_attempt_goes_to_another_node_if_there_is_one(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    other = FakeNode(scene.farm, "node-b")
    node.fail(node.take(scene.job(build_id, Stage.REPAIR)), "child_crashed", Blame.NODE)
    job = scene.job(build_id, Stage.REPAIR)

    assert node.ask(job).declined == "failed here before"
    assert other.ask(job).assignment is not None
    unsent = [ring.attempt for ring in scene.rings(build_id) if ring.sent_at is None]
    assert unsent.count(2) == 2  # the retry's own ring, and the one after the refusal


def test_a_node_that_failed_may_try_again_when_it_is_the_only_one(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    other = FakeNode(scene.farm, "node-b")
    node.fail(node.take(scene.job(build_id, Stage.REPAIR)), "child_crashed", Blame.NODE)
    other.alive(draining=True)

    assert node.ask(scene.job(build_id, Stage.REPAIR)).assignment is not None


def test_what_spoils_two_nodes_is_not_tried_on_a_third(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    other = FakeNode(scene.farm, "node-b")
    FakeNode(scene.farm, "node-c")
    node.fail(node.take(scene.job(build_id, Stage.REPAIR)), "child_crashed", Blame.NODE)
    other.fail(other.take(scene.job(build_id, Stage.REPAIR)), "child_crashed", Blame.NODE)
    job = scene.job(build_id, Stage.REPAIR)

    assert job.state is JobState.FAILED
    assert scene.failure(job).context == {"attempts": 2, "nodes": 2}


@pytest.mark.parametrize("found", [float("nan"), "a\0b"])
def test_facts_that_the_database_cannot_keep_end_the_attempt_and_lose_nothing(
    scene: Scene, node: FakeNode, found: object
) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    message = node.done(work).model_copy(update={"facts": {"found": found}})

    assert node.tell(work, message) is JobState.QUEUED
    first = scene.attempts(scene.job(build_id, Stage.REPAIR))[0]
    assert (first.state, (first.failure or {})["code"]) == (JobState.FAILED, "result_invalid")


def test_a_log_line_with_a_nul_is_kept(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    node.beat(work, log="a\0b")

    assert scene.attempts(scene.job(build_id, Stage.REPAIR))[0].log_tail == "a\ufffdb"


def test_the_log_of_a_failed_attempt_is_kept_for_its_tenant(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    told = node.done(work)
    node.tell(work, told.model_copy(update={"state": JobState.FAILED, "outputs": []}))
    attempt = scene.attempts(scene.job(build_id, Stage.REPAIR))[0]

    assert attempt.log_digest == digest_of(b"built")
    with scene.farm.database.transaction() as session:
        assert blobs.find(session, scene.tenant_id, digest_of(b"built")) is not None


def test_a_log_that_was_not_uploaded_is_not_promised(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    absent = OutputFile(
        role="log", name="log.txt", digest="sha256:" + "0" * 64, size=5, media_type=LOG_TYPE
    )
    told = FinishRequest(
        attempt=work.attempt, lease_token=work.lease_token, state=JobState.FAILED, log=absent
    )
    node.tell(work, told)

    assert scene.attempts(scene.job(build_id, Stage.REPAIR))[0].log_digest is None


def test_who_joined_a_job_sees_its_progress(scene: Scene, node: FakeNode) -> None:
    first, second = scene.submit(), scene.submit()
    node.beat(node.take(scene.job(first, Stage.REPAIR)))
    ids = [scene.job(build, Stage.REPAIR).id for build in (first, second)]
    seen = scene.farm.progress.latest(ids)

    assert [seen[job_id]["fraction"] for job_id in ids] == [0.5, 0.5]


def test_a_job_whose_settling_crashes_does_not_hold_the_others_up(
    scene: Scene, node: FakeNode
) -> None:
    other = Scene.on(scene.farm, "rival")
    works = [(scene, scene.submit()), (other, other.submit())]
    for owner, build_id in works:
        work = node.take(owner.job(build_id, Stage.REPAIR))
        node.tell(work, node.done(work))
    faults = iter([ValueError("a bug"), None])

    with pytest.raises(ValueError, match="a bug"):
        settle_due(faulty(scene.farm, lambda _digest: next(faults)))

    states = [owner.job(build_id, Stage.REPAIR).state for owner, build_id in works]
    assert states == [JobState.UPLOADED, JobState.SUCCEEDED]


def _at_the_publishers_door(scene: Scene, node: FakeNode) -> str:
    build_id = scene.submit()
    scene.run(node, build_id)
    return build_id


def test_publishing_waits_while_the_bucket_is_away_and_goes_on_when_it_is_back(
    scene: Scene, node: FakeNode
) -> None:
    build_id = _at_the_publishers_door(scene, node)
    for _ in range(scene.farm.policy.max_attempts + 1):
        publish_due(faulty(scene.farm, away), scene.signer)
        job = scene.job(build_id, Stage.PUBLISH)
        assert (job.state, job.failures) == (JobState.WAITING, 0)
        scene.age(job, "not_before", 1)
    scene.publish()

    assert scene.state(build_id) is BuildState.SUCCEEDED
    assert scene.count(Artifact) == 1


def test_publishing_that_crashes_is_tried_again_and_then_given_up_aloud(
    scene: Scene, node: FakeNode
) -> None:
    build_id = _at_the_publishers_door(scene, node)
    for _ in range(scene.farm.policy.max_attempts):
        publish_due(faulty(scene.farm, crash), scene.signer)
        scene.age(scene.job(build_id, Stage.PUBLISH), "not_before", 1)
    job: Job = scene.job(build_id, Stage.PUBLISH)

    assert job.state is JobState.FAILED
    assert scene.failure(job).blame is Blame.FARM
    assert len(scene.attempts(job)) == scene.farm.policy.max_attempts
    assert scene.state(build_id) is BuildState.FAILED
    assert scene.count(Artifact) == 0


def test_the_window_of_a_gate_that_waits_opens_when_it_could_be_judged(
    scene: Scene, node: FakeNode
) -> None:
    gpu = "onnxruntime@sm_89"
    builder = FakeNode(scene.farm, "node-gpu", [backend(arch="sm_89", measures=False)])
    gate = {"metric": "cosine", "at_least": 0.9, "if_unmeasured": "wait"}
    build_id = scene.submit(gpu, gates=[gate], wait_for_node=60)

    assert scene.job(build_id, Stage.BENCHMARK, gpu).wait_until is None
    scene.run(builder, build_id, gpu)
    waiting = scene.job(build_id, Stage.BENCHMARK, gpu)
    assert waiting.wait_until is not None
    assert waiting.note == f"waits for a node that can benchmark {gpu}"


def test_a_clock_that_one_build_set_fails_no_other_build(scene: Scene, node: FakeNode) -> None:
    first = scene.submit(limits={"running_s": 3})
    second = scene.submit()
    third = scene.submit()
    node.fail(node.take(scene.job(first, Stage.REPAIR)), "running_limit", Blame.PERSON)

    assert scene.job(first, Stage.REPAIR).state is JobState.FAILED
    mine, other = scene.job(second, Stage.REPAIR), scene.job(third, Stage.REPAIR)
    assert (mine.state, other.joined_to) == (JobState.QUEUED, mine.id)


@pytest.mark.parametrize("name", ["report.json", "report.HTML", "manifest.json", "Config.json"])
def test_an_engine_that_would_take_the_place_of_the_farms_own_files_is_refused(
    scene: Scene, node: FakeNode, name: str
) -> None:
    build_id = scene.submit()
    scene.do(node, build_id, Stage.CHECK)
    work = node.take(scene.job(build_id, Stage.COMPILE))
    message = node.done(work)
    renamed = [message.outputs[0].model_copy(update={"name": name})]
    node.tell(work, message.model_copy(update={"outputs": renamed}))
    scene.settle()

    found = scene.attempts(scene.job(build_id, Stage.COMPILE))[0].failure or {}
    assert found["code"] == "result_invalid"
    assert name.lower() in found["why"]


def test_a_node_that_hands_back_again_and_again_is_not_asked_at_once(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    node.end(node.take(scene.job(build_id, Stage.REPAIR)), JobState.QUEUED)

    assert scene.rings(build_id)[-1].not_before > now()
    assert scene.job(build_id, Stage.REPAIR).failures == 0


def test_a_cancel_that_nobody_asked_for_is_the_nodes_failure(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    node.end(node.take(scene.job(build_id, Stage.REPAIR)), JobState.CANCELLED)

    job = scene.job(build_id, Stage.REPAIR)
    assert (job.state, job.failures) == (JobState.QUEUED, 1)


def test_right_bytes_are_kept_when_a_node_announces_them_with_a_wrong_size(
    scene: Scene, node: FakeNode
) -> None:
    node.engine = b"an engine that two tenants come to share"
    published = scene.submit()
    scene.run(node, published)
    scene.publish()
    rival = Scene.on(scene.farm, "rival")
    build_id = rival.submit()
    rival.do(node, build_id, Stage.CHECK)
    work = node.take(rival.job(build_id, Stage.COMPILE))
    message = node.done(work)
    longer = [row.model_copy(update={"size": row.size + 1}) for row in message.outputs]
    node.tell(work, message.model_copy(update={"outputs": longer}))
    rival.settle()

    failed = rival.attempts(rival.job(build_id, Stage.COMPILE))[0]
    assert (failed.failure or {})["code"] == "blob_size"
    engine = message.outputs[0]
    scene.farm.objects.confirm(engine.digest, engine.size)
