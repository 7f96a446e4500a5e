"""What is under way with anything of an artifact that is taken back is run nowhere, nor let out."""

from __future__ import annotations

from typing import Any

from enginefarm.spec import BuildSpec
from enginefarm.state import ArtifactState, BuildState, JobState, Stage
from storage import artifacts
from tasks.farm import Farm
from tasks.reconciler import reconcile
from tasks.revoke import revoke
from tasks.routing import NODE_STAGES
from tests.integration.tasks.compared import artifact, asked
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import Scene
from tests.integration.tasks.searching import Answering, Searching
from tests.integration.tasks.test_precisions import dataset, int8

GIB = 1 << 30
BASIC: dict[str, Any] = {"options": {"compile": {"graph_optimization": "basic"}}}


def take_back(scene: Scene, digest: str) -> None:
    revoke(scene.farm, scene.tenant_id, digest, "calibrated on the wrong data", "key_1")


def made(scene: Scene, build_id: str) -> str:
    return str((scene.job(build_id, Stage.PUBLISH).result or {})["artifact"])


def out(scene: Scene, node: FakeNode, build_id: str) -> str:
    scene.run(node, build_id)
    scene.publish()
    return made(scene, build_id)


def up_to(scene: Scene, node: FakeNode, build_id: str, last: Stage) -> None:
    for stage in NODE_STAGES[: NODE_STAGES.index(last) + 1]:
        job = scene.jobs(build_id).get(stage)
        if job is not None and job.state is JobState.QUEUED:
            scene.do(node, build_id, stage)


def refused(scene: Scene, build_id: str, stage: Stage, digest: str) -> str:
    """Return what is said of the stage at which a build ended that rests on what was revoked."""
    failure = scene.failure(scene.job(build_id, stage))
    assert failure.code == "engine_revoked"
    assert digest in failure.why
    assert scene.state(build_id) is BuildState.FAILED
    return failure.message


def test_no_node_is_given_the_engine_of_what_was_revoked(scene: Scene, node: FakeNode) -> None:
    digest = out(scene, node, scene.submit())
    under_way = scene.submit(seed=7)
    queued = scene.job(under_way, Stage.BENCHMARK)
    joined = scene.submit(seed=7)
    take_back(scene, digest)
    anew = scene.submit(seed=7)

    assert node.ask(queued).declined == "revoked"
    assert "The engine was revoked" in refused(scene, under_way, Stage.BENCHMARK, digest)
    assert "The engine was revoked" in refused(scene, joined, Stage.BENCHMARK, digest)
    scene.run(node, anew)
    scene.publish()
    assert scene.state(anew) is BuildState.SUCCEEDED
    assert made(scene, anew) != digest


def test_who_made_the_engine_and_is_not_out_yet_does_not_let_it_out_either(
    scene: Scene, node: FakeNode
) -> None:
    slower = scene.submit(seed=7)
    up_to(scene, node, slower, Stage.COMPILE)
    other = scene.submit()
    assert scene.job(other, Stage.COMPILE).cached_from == scene.job(slower, Stage.COMPILE).id
    digest = out(scene, node, other)
    scene.run(node, slower)
    take_back(scene, digest)
    scene.publish()
    assert "The engine was revoked" in refused(scene, slower, Stage.PUBLISH, digest)


def test_what_was_made_of_a_calibrated_model_that_was_withdrawn_is_run_nowhere_nor_let_out(
    scene: Scene, node: FakeNode
) -> None:
    digest = out(scene, node, scene.submit(**int8(scene)))
    to_run, running, measured = (
        scene.submit(**int8(scene), options={"compile": {"graph_optimization": level}})
        for level in ("basic", "extended", "none")
    )
    assert scene.job(to_run, Stage.CALIBRATE).cached_from is not None
    up_to(scene, node, running, Stage.CHECK)
    work = node.take(scene.job(running, Stage.COMPILE))
    scene.run(node, measured)
    take_back(scene, digest)
    node.tell(work, node.done(work))
    scene.settle()
    scene.publish()

    assert node.ask(scene.job(to_run, Stage.CHECK)).declined == "revoked"
    for build_id, stage in (
        (to_run, Stage.CHECK),
        (running, Stage.BENCHMARK),
        (measured, Stage.PUBLISH),
    ):
        assert "The calibrated model was revoked" in refused(scene, build_id, stage, digest)
    assert {row.state for row in scene.twin(running).values()} <= {
        JobState.FAILED,
        JobState.CANCELLED,
    }, "no twin is built of what is not measured"


def test_nothing_is_measured_beside_a_twin_that_was_revoked_nor_let_out_with_such_a_verdict(
    scene: Scene, node: FakeNode
) -> None:
    digest = out(scene, node, scene.submit(evaluation=dataset(scene, "held out")))
    queued, measured = (scene.submit(**int8(scene), seed=seed) for seed in (0, 7))
    up_to(scene, node, queued, Stage.COMPILE)
    scene.run_twin(node, queued)
    assert scene.twin(queued)[Stage.COMPILE].cached_from is not None
    scene.run(node, measured)
    take_back(scene, digest)
    scene.publish()

    assert node.ask(scene.job(queued, Stage.BENCHMARK)).declined == "revoked"
    for build_id, stage in ((queued, Stage.BENCHMARK), (measured, Stage.PUBLISH)):
        assert "The engine of its twin was revoked" in refused(scene, build_id, stage, digest)
    anew = scene.submit(**int8(scene))
    assert scene.job(anew, Stage.COMPILE).cached_from is not None, "of the engine all is well"
    assert scene.twin(anew)[Stage.COMPILE].cached_from is None


def test_what_waits_for_a_node_does_not_wait_for_one_any_more(scene: Scene, farm: Farm) -> None:
    large = FakeNode(farm, "large", memory_bytes=8 * GIB, took={Stage.BENCHMARK: 6 * GIB})
    digest = out(scene, large, scene.submit())
    FakeNode(farm, "small", memory_bytes=4 * GIB)
    scene.silence(large.node_id, 3600)
    reconcile(farm)
    build_id = scene.submit(seed=7, wait_for_node=600)
    assert scene.job(build_id, Stage.BENCHMARK).state is JobState.WAITING
    take_back(scene, digest)
    reconcile(farm)
    assert "The engine was revoked" in refused(scene, build_id, Stage.BENCHMARK, digest)


def test_a_comparison_that_runs_while_one_is_revoked_is_not_signed(
    scene: Scene, node: FakeNode
) -> None:
    pair = artifact(scene, node), artifact(scene, node, **BASIC)
    build_id = asked(scene, *pair)
    work = node.take(scene.job(build_id, Stage.BENCHMARK))
    take_back(scene, pair[0])
    node.tell(work, node.done(work))
    scene.settle()
    scene.publish()
    job = scene.job(build_id, Stage.PUBLISH)
    assert (job.state, scene.failure(job).code) == (JobState.FAILED, "comparison_revoked")
    assert scene.state(build_id) is BuildState.FAILED


def test_a_search_lets_out_no_candidate_that_rests_on_what_was_revoked(scene: Scene) -> None:
    node = Answering(scene.farm, "node-a", needed=0)
    searching = Searching.begun(scene)
    searching.step()
    searching.work(node)
    tried = {row.number: row.build_id for row in searching.candidates() if row.build_id}
    same = [
        scene.accept(BuildSpec.model_validate(scene.build(each).spec)) for each in tried.values()
    ]
    scene.publish()
    for each in same:
        take_back(scene, made(scene, each.build.id))

    row = searching.run(node)
    assert row.chosen not in tried
    told = [each.outcome or {} for each in searching.candidates() if each.number in tried]
    assert [each["failure"]["code"] for each in told] == ["engine_revoked"] * len(tried)
    with scene.farm.database.transaction() as session:
        for build_id in tried.values():
            digest = made(scene, build_id)
            state = artifacts.get(session, scene.tenant_id, digest).state
            assert state is ArtifactState.QUARANTINED
