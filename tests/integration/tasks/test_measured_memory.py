"""What a build took is known to the next one like it: nodes without that much do not get it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from enginefarm.errors import Failure, NotServed
from enginefarm.state import Blame, BuildState, JobState, Stage
from storage import backlog
from tasks import submit
from tasks.app import make_app
from tasks.dispatcher import dispatch
from tasks.farm import Farm
from tasks.messages import Assignment, FinishRequest
from tasks.reconciler import reconcile
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import Scene

GIB = 1 << 30
TOOK = {Stage.COMPILE: 6 * GIB}


@pytest.fixture
def large(farm: Farm) -> FakeNode:
    return FakeNode(farm, "large", memory_bytes=8 * GIB, took=TOOK)


@pytest.fixture
def built(scene: Scene, large: FakeNode) -> str:
    """A build that took what it took; the engine is no longer in the cache."""
    build_id = scene.submit()
    scene.run(large, build_id)
    scene.withdraw(build_id)
    return build_id


def small(farm: Farm, *, slots: int = 1) -> FakeNode:
    return FakeNode(farm, "small", memory_bytes=4 * GIB, slots=slots)


def gone(scene: Scene, node: FakeNode) -> None:
    scene.silence(node.node_id, 3600)
    reconcile(scene.farm)


def up_to_compile(scene: Scene, node: FakeNode, build_id: str) -> None:
    for stage in (Stage.REPAIR, Stage.CHECK):
        scene.do(node, build_id, stage)


def ended(work: Assignment, code: str, blame: Blame, peak: int) -> FinishRequest:
    return FinishRequest(
        attempt=work.attempt,
        lease_token=work.lease_token,
        state=JobState.FAILED,
        failure=Failure(code=code, blame=blame, message="It had too little."),
        peak_memory_bytes=peak,
    )


def test_a_node_without_the_memory_that_a_build_took_before_does_not_get_it(
    scene: Scene, large: FakeNode, built: str
) -> None:
    little = small(scene.farm)
    build_id = scene.submit()
    up_to_compile(scene, little, build_id)
    job = scene.job(build_id, Stage.COMPILE)

    assert job.peak_bytes == 6 * GIB
    assert little.ask(job).declined == "too little memory"
    assert large.ask(job).assignment is not None


def test_the_check_is_told_what_the_next_stages_took_and_who_has_most(
    scene: Scene, large: FakeNode, built: str
) -> None:
    little = small(scene.farm)
    build_id = scene.submit()
    scene.do(little, build_id, Stage.REPAIR)
    work = little.take(scene.job(build_id, Stage.CHECK))

    told = {row.stage: (row.peak_bytes, row.enough, row.build_id) for row in work.measured}
    assert told == {Stage.COMPILE: (6 * GIB, True, built)}
    assert work.most_memory_bytes == 8 * GIB
    assert list(map(str, work.served or [])) == ["onnxruntime@cpu"]


def test_another_tenant_learns_nothing_of_it(scene: Scene, large: FakeNode, built: str) -> None:
    other = Scene.on(scene.farm, "other")
    build_id = other.submit()
    other.do(large, build_id, Stage.REPAIR)

    assert large.take(other.job(build_id, Stage.CHECK)).measured == []


def test_what_the_cache_lost_and_no_node_has_the_memory_for_fails_with_the_number(
    scene: Scene, large: FakeNode, built: str
) -> None:
    little = small(scene.farm)
    gone(scene, large)
    build_id = scene.submit()
    up_to_compile(scene, little, build_id)

    job = scene.job(build_id, Stage.COMPILE)
    assert (job.state, scene.state(build_id)) == (JobState.FAILED, BuildState.FAILED)
    failure = scene.failure(job)
    assert failure.code == "memory_not_served"
    assert f"6144 MiB, measured in build {built}" in failure.why
    assert "4096 MiB" in failure.why
    assert scene.job(build_id, Stage.PUBLISH).state is JobState.CANCELLED


def test_what_failed_for_want_of_memory_is_refused_at_submit_and_by_a_plan(
    scene: Scene, farm: Farm
) -> None:
    little = FakeNode(farm, "small", memory_bytes=16 * GIB, job_memory_bytes=4 * GIB)
    build_id = scene.submit()
    up_to_compile(scene, little, build_id)
    work = little.take(scene.job(build_id, Stage.COMPILE))
    assert little.tell(work, ended(work, "memory_limit", Blame.PERSON, 5 * GIB)) is JobState.FAILED

    with pytest.raises(NotServed, match="at least 5121 MiB") as caught:
        scene.submit()
    assert caught.value.code == "memory_not_served"
    with scene.farm.database.transaction() as session, pytest.raises(NotServed, match="5121"):
        submit.plan(session, scene.tenant_id, scene.spec())
    assert scene.submit(wait_for_node=60)


def test_a_build_that_would_rather_wait_starts_when_a_node_with_the_memory_comes(
    scene: Scene, large: FakeNode, built: str
) -> None:
    little = small(scene.farm)
    gone(scene, large)
    build_id = scene.submit(wait_for_node=600)
    up_to_compile(scene, little, build_id)
    job = scene.job(build_id, Stage.COMPILE)
    assert job.state is JobState.WAITING
    assert job.note is not None
    assert "with 6144 MiB" in job.note
    reconcile(scene.farm)
    assert scene.job(build_id, Stage.COMPILE).state is JobState.WAITING

    large.start_again()
    reconcile(scene.farm)
    assert scene.job(build_id, Stage.COMPILE).state is JobState.QUEUED
    scene.run(large, build_id)
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED


def test_a_build_that_waited_in_vain_ends_with_the_number(
    scene: Scene, large: FakeNode, built: str
) -> None:
    little = small(scene.farm)
    gone(scene, large)
    build_id = scene.submit(wait_for_node=600)
    up_to_compile(scene, little, build_id)
    scene.age(scene.job(build_id, Stage.COMPILE), "wait_until", 1)
    reconcile(scene.farm)

    job = scene.job(build_id, Stage.COMPILE)
    assert job.state is JobState.EXPIRED
    assert "6144 MiB" in scene.failure(job).why


def test_a_job_that_its_nodes_limit_ended_goes_to_a_node_with_a_higher_one(
    scene: Scene, farm: Farm
) -> None:
    little = FakeNode(farm, "small", memory_bytes=16 * GIB, job_memory_bytes=2 * GIB)
    large = FakeNode(farm, "large", memory_bytes=16 * GIB)
    build_id = scene.submit()
    up_to_compile(scene, little, build_id)
    work = little.take(scene.job(build_id, Stage.COMPILE))
    assert little.tell(work, ended(work, "memory_limit", Blame.PERSON, 3 * GIB)) is JobState.QUEUED

    job = scene.job(build_id, Stage.COMPILE)
    assert little.ask(job).declined == "too little memory"
    scene.do(large, build_id, Stage.COMPILE)
    assert scene.job(build_id, Stage.COMPILE).state is JobState.SUCCEEDED


def test_a_job_that_no_node_has_the_memory_for_is_not_tried_again(scene: Scene, farm: Farm) -> None:
    node = FakeNode(farm, "small", memory_bytes=4 * GIB)
    build_id = scene.submit()
    up_to_compile(scene, node, build_id)
    work = node.take(scene.job(build_id, Stage.COMPILE))
    assert node.tell(work, ended(work, "out_of_memory", Blame.NODE, 4 * GIB)) is JobState.FAILED


def test_the_least_that_sufficed_is_what_counts(scene: Scene, large: FakeNode, built: str) -> None:
    for took, known in ((5 * GIB, 5 * GIB), (7 * GIB, 5 * GIB)):
        large.took = {Stage.COMPILE: took}
        build_id = scene.submit(seed=took // GIB)
        scene.run(large, build_id)
        scene.withdraw(build_id)
        again = scene.submit(seed=100 + took // GIB)
        scene.do(large, again, Stage.CHECK)
        assert scene.job(again, Stage.COMPILE).peak_bytes == known
        scene.run(large, again)
        scene.withdraw(again)


@pytest.fixture
def broker(valkey_url: str) -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(valkey_url)
    client.flushdb()
    yield client
    client.flushdb()  # a node of another test would hear what was sent
    client.close()


@pytest.mark.usefixtures("broker", "built")
def test_a_ring_goes_out_only_when_a_node_with_the_memory_is_free(
    scene: Scene, large: FakeNode, valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "EACH", 1)  # only the first of each queue is looked at
    little = small(scene.farm, slots=4)
    app = make_app(valkey_url, publisher=True)
    waiting = scene.submit()
    up_to_compile(scene, little, waiting)
    other = Scene.on(scene.farm, "other")
    large.take(other.job(other.submit(), Stage.REPAIR))
    behind = scene.accept(scene.spec(model=scene.other())).build.id
    up_to_compile(scene, little, behind)

    dispatch(scene.farm, app)
    assert scene.rings(waiting)[-1].sent_at is None
    assert scene.rings(behind)[-1].sent_at is not None


@pytest.mark.usefixtures("broker", "built")
def test_one_node_with_the_memory_gets_one_ring(
    scene: Scene, large: FakeNode, valkey_url: str
) -> None:
    other = scene.other()
    known = scene.accept(scene.spec(model=other)).build.id
    scene.run(large, known)
    scene.withdraw(known)
    little = small(scene.farm)
    waiting = [scene.submit(), scene.accept(scene.spec(model=other)).build.id]
    for build_id in waiting:
        up_to_compile(scene, little, build_id)

    dispatch(scene.farm, make_app(valkey_url, publisher=True))
    assert [scene.rings(row)[-1].sent_at is not None for row in waiting].count(True) == 1
