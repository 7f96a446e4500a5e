"""A build from submit to a signed artifact, from the cache, joined, and raced for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from enginefarm.digest import digest_of
from enginefarm.errors import Conflict
from enginefarm.manifest import LAYERS_TYPE, read_manifest
from enginefarm.state import PLAIN_STAGES, Blame, BuildState, JobState, Stage
from storage.models import Artifact, Attestation
from tasks.messages import Assignment, OutputFile
from tasks.publish import publish
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import CPU, Scene


def test_a_build_goes_through_every_stage_and_ends_with_an_artifact_that_verifies(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    assert scene.state(build_id) is BuildState.RUNNING
    scene.run(node, build_id)
    scene.publish()
    assert scene.states(build_id) == [JobState.SUCCEEDED] * len(PLAIN_STAGES)
    assert scene.state(build_id) is BuildState.SUCCEEDED
    result = scene.job(build_id, Stage.PUBLISH).result or {}
    verified = scene.verified(result["artifact"])
    engine = verified.manifest.file("model.onnx")
    assert engine is not None
    data = scene.farm.objects.read(engine.digest, 1 << 20)
    assert data == f"engine of {scene.job(build_id, Stage.COMPILE).id} by node-a".encode()
    assert verified.statement.build_definition["externalParameters"]["target"] == CPU  # type: ignore[index,call-overload]
    assert verified.statement.metadata["invocationId"] == f"{build_id}#1"


LAYERS = b'{"Layers": ["one"]}'


class TellingNode(FakeNode):
    """A node that looks into its engines."""

    def made(self, work: Assignment) -> list[tuple[OutputFile, bytes]]:
        told = OutputFile(
            role="layers",
            name="layers.json",
            digest=digest_of(LAYERS),
            size=len(LAYERS),
            media_type=LAYERS_TYPE,
        )
        return super().made(work) + [(told, LAYERS)] * (work.stage is Stage.COMPILE)


def test_what_an_engine_tells_of_its_layers_is_a_file_of_the_artifact(scene: Scene) -> None:
    node = TellingNode(scene.farm, "node-b")
    build_id = scene.submit()
    scene.run(node, build_id)
    scene.publish()
    result = scene.job(build_id, Stage.PUBLISH).result or {}
    layers = scene.verified(result["artifact"]).manifest.file("layers.json")
    assert layers is not None
    assert scene.farm.objects.read(layers.digest, 1 << 20) == LAYERS


def test_each_stage_is_given_the_files_it_works_on(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    for stage in (Stage.REPAIR, Stage.CHECK):
        work = node.take(scene.job(build_id, stage))
        assert [(file.role, file.name) for file in work.inputs] == [("model", "model.onnx")]
        node.tell(work, node.done(work))
        scene.settle()
    scene.do(node, build_id, Stage.COMPILE)
    measured = node.take(scene.job(build_id, Stage.BENCHMARK))
    assert [file.role for file in measured.inputs] == ["model", "engine"]
    assert measured.recipe["engine"]["digest"] == measured.inputs[1].digest  # type: ignore[index,call-overload]


def test_events_of_a_build_are_numbered_without_gaps(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    scene.run(node, build_id)
    scene.publish()
    told = scene.events(build_id)
    assert [event.seq for event in told] == list(range(1, len(told) + 1))
    assert (told[0].kind, told[-1].kind) == ("build", "build")
    assert told[-1].data == {"state": "succeeded"}


def test_the_same_build_again_is_answered_from_the_cache_at_once(
    scene: Scene, node: FakeNode
) -> None:
    first = scene.submit()
    scene.run(node, first)
    scene.publish()
    second = scene.submit(labels={"team": "vision"}, priority=1)
    assert scene.state(second) is BuildState.SUCCEEDED
    assert scene.states(second) == [JobState.SUCCEEDED] * len(PLAIN_STAGES)
    assert scene.rings(second) == []
    was, now = scene.jobs(first), scene.jobs(second)
    assert {stage: job.cached_from for stage, job in now.items()} == {
        stage: job.id for stage, job in was.items()
    }
    assert now[Stage.PUBLISH].result == was[Stage.PUBLISH].result


def test_a_build_until_check_ends_there_and_the_next_need_not_check_again(
    scene: Scene, node: FakeNode
) -> None:
    first = scene.submit(until="check")
    assert set(scene.jobs(first)) == {Stage.REPAIR, Stage.CHECK}
    scene.run(node, first)
    assert scene.state(first) is BuildState.SUCCEEDED
    assert scene.count(Artifact) == 0
    second = scene.submit()
    was, now = scene.job(first, Stage.CHECK), scene.job(second, Stage.CHECK)
    assert now.cached_from == was.id
    assert scene.job(second, Stage.COMPILE).state is JobState.QUEUED


def test_another_tenant_does_not_share_the_cache(scene: Scene, node: FakeNode) -> None:
    first = scene.submit()
    scene.run(node, first)
    other = Scene.on(scene.farm, "rival")
    second = other.submit()
    assert other.states(second)[0] is JobState.QUEUED


def test_work_in_flight_is_joined_and_ends_with_its_leader(scene: Scene, node: FakeNode) -> None:
    first, second = scene.submit(), scene.submit()
    leader, follower = scene.job(first, Stage.REPAIR), scene.job(second, Stage.REPAIR)
    assert (follower.state, follower.joined_to) == (JobState.WAITING, leader.id)
    assert scene.rings(second) == []
    scene.do(node, first, Stage.CHECK)
    assert scene.job(second, Stage.REPAIR).cached_from == leader.id
    compiles = scene.jobs(first)[Stage.COMPILE], scene.jobs(second)[Stage.COMPILE]
    assert sorted(job.state for job in compiles) == [JobState.QUEUED, JobState.WAITING]
    scene.run(node, first)
    scene.publish()
    assert scene.state(first) is scene.state(second) is BuildState.SUCCEEDED
    assert scene.count(Artifact) == 1


def test_a_repeated_finish_gets_the_same_answer(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    message = node.done(work)
    told = len(scene.events(build_id))
    assert node.tell(work, message) is JobState.UPLOADED
    assert node.tell(work, message) is JobState.UPLOADED
    assert len(scene.events(build_id)) == told + 1
    scene.settle()
    assert node.tell(work, message) is JobState.UPLOADED
    assert len(scene.attempts(scene.job(build_id, Stage.REPAIR))) == 1


def test_an_attempt_is_given_to_one_node_only(scene: Scene, node: FakeNode) -> None:
    build_id = scene.submit()
    nodes = [node, FakeNode(scene.farm, "node-b"), FakeNode(scene.farm, "node-c")]
    job = scene.job(build_id, Stage.REPAIR)
    with ThreadPoolExecutor(len(nodes)) as pool:
        replies = list(pool.map(lambda one: one.ask(job), nodes))
    assert [reply.assignment is not None for reply in replies].count(True) == 1
    assert {reply.declined for reply in replies if reply.assignment is None} == {"running"}


def test_two_submits_of_one_recipe_at_once_make_one_live_job(scene: Scene, node: FakeNode) -> None:
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: scene.submit(), range(6)))
    checks = [scene.job(build_id, Stage.REPAIR) for build_id in made]
    leaders = [job for job in checks if job.joined_to is None]
    assert len(leaders) == 1
    assert {job.joined_to for job in checks if job.joined_to} == {leaders[0].id}
    scene.do(node, leaders[0].build_id, Stage.CHECK)
    assert {scene.job(build_id, Stage.REPAIR).state for build_id in made} == {JobState.SUCCEEDED}


def test_an_idempotency_key_names_one_build(scene: Scene, node: FakeNode) -> None:
    made = scene.submit(key="k-1")
    again = scene.accept(scene.spec(), "k-1")
    assert (again.build.id, again.existed) == (made, True)
    with pytest.raises(Conflict) as refused:
        scene.submit(key="k-1", seed=7)
    assert refused.value.code == "idempotency_key_reused"
    other = Scene.on(scene.farm, "rival")
    assert other.submit(key="k-1") != made


def test_one_idempotency_key_sent_twice_at_once_makes_one_build(
    scene: Scene, node: FakeNode
) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: scene.submit(key="k-1"), range(4)))
    assert len(set(made)) == 1


def test_racing_publishers_make_one_artifact_and_one_attestation(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    scene.run(node, build_id)
    job = scene.job(build_id, Stage.PUBLISH)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: publish(scene.farm, scene.signer, job.id), range(4)))
    assert (scene.count(Artifact), scene.count(Attestation)) == (1, 1)
    assert scene.state(build_id) is BuildState.SUCCEEDED


def test_the_published_files_are_in_the_bucket_under_their_digests(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    scene.run(node, build_id)
    scene.publish()
    digest = (scene.job(build_id, Stage.PUBLISH).result or {})["artifact"]
    manifest = read_manifest(scene.farm.objects.read(digest, 1 << 20))
    for file in (manifest.config, *manifest.layers):
        assert digest_of(scene.farm.objects.read(file.digest, 1 << 20)) == file.digest
    assert [layer.name for layer in manifest.layers] == [
        "model.onnx",
        "report.html",
        "report.json",
    ]


def test_what_is_signed_about_a_cached_engine_is_what_was_when_it_was_compiled(
    scene: Scene, node: FakeNode
) -> None:
    first = scene.submit()
    scene.do(node, first, Stage.CHECK)
    node.fail(node.take(scene.job(first, Stage.COMPILE)), "child_crashed", Blame.NODE)
    scene.run(node, first)
    scene.publish()
    compiled = scene.job(first, Stage.COMPILE)
    second = scene.submit(seed=77)
    scene.run(node, second)
    scene.publish()

    digest = (scene.job(second, Stage.PUBLISH).result or {})["artifact"]
    run = scene.verified(digest).statement.metadata
    assert run["invocationId"] == f"{first}#2"
    assert compiled.started_at is not None
    assert str(run["startedOn"]).startswith(f"{compiled.started_at:%Y-%m-%dT%H:%M:%S}")
