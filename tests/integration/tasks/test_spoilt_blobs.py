"""What is in the bucket is what was made, or it is made again; and it is nobody else's."""

from __future__ import annotations

from enginefarm.digest import digest_of
from enginefarm.state import Blame, BuildState, JobState, Stage
from storage import blobs
from tasks.messages import INPUT_UNAVAILABLE
from tests.contract.stores import overwrite
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import Scene


def test_a_cached_engine_that_was_spoilt_is_built_anew_by_the_next_build(
    scene: Scene, node: FakeNode
) -> None:
    node.engine = b"the same engine each time"
    first = scene.submit()
    scene.run(node, first)
    scene.publish()
    engine = (scene.job(first, Stage.COMPILE).result or {})["outputs"][0]
    overwrite(scene.bucket, engine["digest"], b"x" * engine["size"])
    second = scene.submit(gates=[{"metric": "cosine", "at_least": 0.5}])
    assert scene.job(second, Stage.COMPILE).cached_from == scene.job(first, Stage.COMPILE).id
    scene.publish()
    failure = scene.failure(scene.job(second, Stage.PUBLISH))
    assert (failure.code, failure.blame) == ("engine_lost", Blame.FARM)

    third = scene.submit(gates=[{"metric": "cosine", "at_least": 0.5}])
    assert scene.job(third, Stage.COMPILE).state is JobState.QUEUED
    scene.run(node, third)
    scene.publish()
    assert scene.state(third) is BuildState.SUCCEEDED


def test_a_cached_engine_that_a_node_could_not_fetch_is_built_anew_by_the_next_build(
    scene: Scene, node: FakeNode
) -> None:
    first = scene.submit()
    scene.do(node, first, Stage.CHECK)
    scene.do(node, first, Stage.COMPILE)
    (engine,) = (scene.job(first, Stage.COMPILE).result or {})["outputs"]
    scene.bucket.remove(engine["digest"])
    for _ in range(scene.farm.policy.max_attempts):
        work = node.take(scene.job(first, Stage.BENCHMARK))
        node.fail(work, INPUT_UNAVAILABLE, Blame.FARM)
    assert scene.state(first) is BuildState.FAILED

    second = scene.submit()
    assert scene.job(second, Stage.COMPILE).state is not JobState.SUCCEEDED
    scene.run(node, second)
    scene.publish()
    assert scene.state(second) is BuildState.SUCCEEDED


def test_spoilt_bytes_give_way_to_the_right_ones(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    scene.do(node, build_id, Stage.CHECK)
    work = node.take(scene.job(build_id, Stage.COMPILE))
    message = node.done(work)
    made = message.outputs[0]
    overwrite(scene.bucket, made.digest, b"y" * made.size)
    node.tell(work, message)
    scene.settle()

    assert scene.job(build_id, Stage.COMPILE).state is JobState.SUCCEEDED
    scene.bucket.confirm(made.digest, made.size)


def test_bytes_of_the_tenants_own_that_were_spoilt_are_made_again(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    scene.do(node, build_id, Stage.CHECK)
    work = node.take(scene.job(build_id, Stage.COMPILE))
    ((made, data),) = node.made(work)
    scene.bucket.put_bytes(made.digest, data, made.media_type)
    with scene.farm.database.transaction() as session:
        blobs.record(session, scene.tenant_id, made.digest, made.size, made.media_type)
    message = node.done(work)
    overwrite(scene.bucket, made.digest, b"y" * made.size)
    node.tell(work, message)
    scene.settle()
    assert (scene.attempts(scene.job(build_id, Stage.COMPILE))[0].failure or {})["code"] == (
        "blob_corrupt"
    )
    node.engine = data
    scene.do(node, build_id, Stage.COMPILE)
    assert scene.job(build_id, Stage.COMPILE).state is JobState.SUCCEEDED


def test_bytes_that_an_attempt_asked_no_place_for_are_not_taken_as_its_own(
    scene: Scene, node: FakeNode
) -> None:
    rival = Scene.on(scene.farm, "rival")
    secret = b"what another tenant keeps"
    scene.bucket.put_bytes(digest_of(secret), secret, "application/octet-stream")
    build_id = scene.submit()
    scene.do(node, build_id, Stage.CHECK)
    work = node.take(scene.job(build_id, Stage.COMPILE))
    message = node.done(work)
    theirs = {"digest": digest_of(secret), "size": len(secret)}
    named = [message.outputs[0].model_copy(update=theirs)]
    log = message.outputs[0].model_copy(update={**theirs, "role": "log"})
    node.tell(work, message.model_copy(update={"outputs": named, "log": log}))
    scene.settle()

    attempt = scene.attempts(scene.job(build_id, Stage.COMPILE))[0]
    assert (attempt.failure or {})["code"] == "result_invalid"
    assert attempt.log_digest is None
    assert rival.tenant_id != scene.tenant_id
    with scene.farm.database.transaction() as session:
        assert blobs.find(session, scene.tenant_id, digest_of(secret)) is None
