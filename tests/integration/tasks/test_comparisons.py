"""Two artifacts are compared in one job of a node, signed, kept, and refused where they may not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import null, select, update

from enginefarm.comparison_proof import verify_comparison
from enginefarm.comparison_report import ComparisonVerdict
from enginefarm.errors import FarmError, InvalidRequest, NotFound, NotServed, VerificationFailed
from enginefarm.plan_views import MissView
from enginefarm.provenance import verify_bundle
from enginefarm.state import ArtifactState, BuildState, JobState, Stage
from enginefarm.trust_views import TrustKey
from storage import signing
from storage.database import now
from storage.models import Artifact, Attestation, Job, Model
from tasks import submit
from tasks.reconciler import reconcile
from tests.integration.tasks.compared import artifact, asked, done, told
from tests.integration.tasks.fake_facts import compared_facts
from tests.integration.tasks.fake_node import FakeNode, backend
from tests.integration.tasks.scene import CPU, INTERFACE, TENSOR, Scene


def missed(scene: Scene) -> MissView:
    """Return how the plan of a build explains that its benchmark is not in the cache."""
    with scene.farm.database.transaction() as session:
        view = submit.plan(session, scene.tenant_id, scene.spec(seed=5), explain=True)
    (miss,) = (row.miss for row in view.targets[0].jobs if row.stage is Stage.BENCHMARK)
    assert miss is not None
    return miss


def change(scene: Scene, digest: str, **values: object) -> None:
    with scene.farm.database.transaction() as session:
        session.execute(update(Artifact).where(Artifact.digest == digest).values(values))


@pytest.fixture
def pair(scene: Scene, node: FakeNode) -> tuple[str, str]:
    """Return two artifacts of one model, with different engines."""
    other = {"compile": {"graph_optimization": "basic"}}
    return artifact(scene, node), artifact(scene, node, options=other)


def bundle_of(scene: Scene, build_id: str) -> tuple[bytes, list[TrustKey]]:
    job = scene.job(build_id, Stage.PUBLISH)
    with scene.farm.database.transaction() as session:
        row = session.scalar(select(Attestation).where(Attestation.job_id == job.id))
        keys = [
            TrustKey.model_validate(key, from_attributes=True)
            for key in signing.trust_keys(session)
        ]
    assert row is not None
    return row.bundle, keys


def test_one_job_measures_both_and_the_signed_report_names_both(
    scene: Scene, node: FakeNode, pair: tuple[str, str]
) -> None:
    build_id = asked(scene, *pair)
    assert list(scene.jobs(build_id)) == [Stage.BENCHMARK, Stage.PUBLISH]
    work = node.take(scene.job(build_id, Stage.BENCHMARK))
    assert [(row.role, row.name) for row in work.inputs] == [
        ("first", "model.onnx"),
        ("second", "model.onnx"),
    ]
    assert len({row.digest for row in work.inputs}) == 2
    node.tell(work, node.done(work))
    scene.settle()
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED
    report = told(scene, build_id)
    assert (report.first.artifact, report.second.artifact) == pair
    assert (report.verdict, report.rows[0].speedup) == (ComparisonVerdict.FASTER, 1.5)
    bundle, keys = bundle_of(scene, build_id)
    assert verify_comparison(bundle, keys) == report
    with pytest.raises(VerificationFailed, match="comparison") as refused:
        verify_bundle(bundle, keys)  # it vouches for no engine
    assert refused.value.code == "predicate_type_wrong"
    spoilt = bundle.replace(b'"payload":"e', b'"payload":"f')
    with pytest.raises(VerificationFailed):
        verify_comparison(spoilt, keys)


def test_what_was_measured_answers_again_unless_it_is_asked_anew_or_the_other_way_round(
    scene: Scene, node: FakeNode, pair: tuple[str, str]
) -> None:
    first = done(scene, node, asked(scene, *pair))
    same = asked(scene, *pair)
    assert scene.state(same) is BuildState.SUCCEEDED
    assert told(scene, same) == first
    anew = [
        asked(scene, *pair, again=True),
        asked(scene, *pair, again=True),
        asked(scene, *reversed(pair)),
        asked(scene, *pair, options={"threads": 2}),
    ]
    for build_id in anew:
        assert scene.job(build_id, Stage.BENCHMARK).state is JobState.QUEUED
    assert len({scene.job(build_id, Stage.BENCHMARK).key for build_id in anew}) == len(anew)
    lasts_no_longer = asked(scene, *pair, options={"min_iterations": 99})
    assert scene.state(lasts_no_longer) is BuildState.SUCCEEDED  # says nothing of windows


def test_a_benchmark_is_explained_by_the_nearest_benchmark_and_by_no_comparison(
    scene: Scene, node: FakeNode, pair: tuple[str, str]
) -> None:
    compared = asked(scene, *pair)
    done(scene, node, compared)
    assert [row.field for row in missed(scene).differences] == ["seed"]
    with scene.farm.database.transaction() as session:  # let the comparison be the only one left
        others = update(Job).where(Job.stage == Stage.BENCHMARK, Job.build_id != compared)
        session.execute(others.values(recipe=null()))
    assert missed(scene).nearest_job is None


def test_what_cannot_be_relied_on_is_told_once_and_measured_again_by_who_asks_again(
    scene: Scene, node: FakeNode, pair: tuple[str, str]
) -> None:
    build_id = asked(scene, *pair)
    work = node.take(scene.job(build_id, Stage.BENCHMARK))
    facts = compared_facts(1.5, "clocks were held down: thermal")
    node.tell(work, node.done(work).model_copy(update={"facts": facts}))
    scene.settle()
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED
    assert told(scene, build_id).verdict is ComparisonVerdict.CANNOT_TELL
    again = asked(scene, *pair)
    assert done(scene, node, again).verdict is ComparisonVerdict.FASTER


def test_a_node_that_dies_costs_one_attempt(
    scene: Scene, node: FakeNode, pair: tuple[str, str]
) -> None:
    build_id = asked(scene, *pair)
    node.take(scene.job(build_id, Stage.BENCHMARK))
    with scene.farm.database.transaction() as session:
        past = now() - timedelta(seconds=3600)
        mine = update(Job).where(Job.build_id == build_id, Job.state == JobState.RUNNING)
        session.execute(mine.values(lease_until=past))
    reconcile(scene.farm)
    job = scene.job(build_id, Stage.BENCHMARK)
    assert (job.state, job.attempt) == (JobState.QUEUED, 2)
    other = FakeNode(scene.farm, "node-2")
    assert done(scene, other, build_id).verdict is ComparisonVerdict.FASTER


def test_a_node_of_the_version_before_is_not_given_one(
    scene: Scene, node: FakeNode, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    build_id = asked(scene, *pair)
    described = node.described().model_copy(update={"compares": False})
    monkeypatch.setattr(FakeNode, "described", lambda _: described)
    node.start_again()
    assert node.ask(scene.job(build_id, Stage.BENCHMARK)).declined == "incapable"
    with pytest.raises(NotServed) as refused:
        asked(scene, *pair, again=True)
    assert refused.value.code == "comparison_not_served"
    waits = asked(scene, *pair, again=True, wait_for_node=60)
    job = scene.job(waits, Stage.BENCHMARK)
    assert (job.state, job.note) == (JobState.WAITING, f"waits for a node that can benchmark {CPU}")
    monkeypatch.undo()
    node.start_again()
    reconcile(scene.farm)
    assert scene.job(waits, Stage.BENCHMARK).state is JobState.QUEUED


def test_what_must_be_known_to_open_an_engine_goes_with_it(
    scene: Scene, node: FakeNode, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = scene.job(asked(scene, *pair), Stage.BENCHMARK).recipe or {}
    assert all("built_with" not in row for row in plain["compare"].values())
    built = {"version_compatible": True}
    monkeypatch.setattr("tasks.comparing.subjects.opened_by", lambda _backend, _options: built)
    recipe = scene.job(asked(scene, *pair, again=True), Stage.BENCHMARK).recipe or {}
    assert [row["built_with"] for row in recipe["compare"].values()] == [built, built]


def test_facts_that_no_verdict_can_be_based_on_are_the_nodes_fault(
    scene: Scene, node: FakeNode, pair: tuple[str, str]
) -> None:
    build_id = asked(scene, *pair)
    work = node.take(scene.job(build_id, Stage.BENCHMARK))
    facts = node.facts(Stage.BENCHMARK, 0)  # those of a benchmark of one engine
    node.tell(work, node.done(work).model_copy(update={"facts": facts}))
    scene.settle()
    (first, *_) = scene.attempts(scene.job(build_id, Stage.BENCHMARK))
    assert (first.failure or {})["code"] == "result_invalid"


def _revoke(scene: Scene, digest: str) -> None:
    change(scene, digest, state=ArtifactState.REVOKED)


def _expire(scene: Scene, digest: str) -> None:
    change(scene, digest, engine_expired_at=now())


def _reshape(scene: Scene, digest: str) -> None:
    """Let the model of an artifact have another interface."""
    shape = INTERFACE | {"inputs": [TENSOR | {"shape": [2, 4]}]}
    with scene.farm.database.transaction() as session:
        row = session.scalars(select(Artifact).where(Artifact.digest == digest)).one()
        mine = update(Model).where(Model.digest == row.model_digest)
        session.execute(mine.values(interface=shape))


def _retarget(scene: Scene, digest: str) -> None:
    with scene.farm.database.transaction() as session:
        row = session.scalars(select(Artifact).where(Artifact.digest == digest)).one()
        theirs = update(Job).where(Job.build_id == row.build_id)
        session.execute(theirs.values(target="onnxruntime@sm_89"))
    change(scene, digest, target="onnxruntime@sm_89")


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (_revoke, "comparison_revoked"),
        (_expire, "comparison_engine_gone"),
        (_reshape, "comparison_interface"),
        (_retarget, "comparison_target"),
    ],
)
def test_what_does_not_go_together_is_refused_before_there_is_a_job(
    scene: Scene, node: FakeNode, spoil: Callable[[Scene, str], None], code: str
) -> None:
    first, second = artifact(scene, node), artifact(scene, node, model=scene.other())
    before = scene.count(Job)
    spoil(scene, second)
    with pytest.raises(InvalidRequest) as refused:
        asked(scene, first, second)
    assert refused.value.code == code
    assert scene.count(Job) == before


def test_an_engine_that_only_its_version_loads_is_not_held_against_one_of_another(
    scene: Scene,
) -> None:
    gpu = "tensorrt-rtx@sm_89"
    node = FakeNode(scene.farm, "gpu", [backend("1.7", name="tensorrt-rtx", arch="sm_89")])
    first = artifact(scene, node, gpu)
    node.backends = [backend("1.8", name="tensorrt-rtx", arch="sm_89")]
    node.start_again()
    second = artifact(scene, node, gpu)
    with pytest.raises(InvalidRequest) as refused:
        asked(scene, first, second)
    assert refused.value.code == "comparison_versions"
    with pytest.raises(NotServed):  # nobody has 1.7 any more
        asked(scene, first, first)


def test_on_a_sku_that_is_named_only_such_a_node_measures_and_no_other_sku_answers(
    scene: Scene,
) -> None:
    gpu, on_l4 = "onnxruntime@sm_89", "onnxruntime@sm_89:l4"
    offered = [backend(arch="sm_89")]
    l4 = FakeNode(scene.farm, "l4", offered, gpus=["NVIDIA L4"])
    other = FakeNode(scene.farm, "rtx", offered, gpus=["NVIDIA GeForce RTX 4090"])
    first = artifact(scene, other, gpu)
    build_id = asked(scene, first, first, on="l4")
    job = scene.job(build_id, Stage.BENCHMARK, on_l4)
    assert other.ask(job).declined == "incapable"
    scene.run(l4, build_id, on_l4)
    scene.publish()
    assert scene.state(build_id) is BuildState.SUCCEEDED
    assert scene.state(asked(scene, first, first, on="l4")) is BuildState.SUCCEEDED
    assert scene.state(asked(scene, first, first)) is not BuildState.SUCCEEDED
    with pytest.raises(NotServed):
        asked(scene, first, first, on="t4")


def test_the_artifacts_of_another_tenant_are_not_there(
    scene: Scene, node: FakeNode, pair: tuple[str, str]
) -> None:
    stranger = Scene.on(scene.farm, "globex")
    with pytest.raises(NotFound) as refused:
        asked(stranger, *pair)
    assert refused.value.code == "unknown_artifact"
    mine = artifact(stranger, node)
    with pytest.raises(FarmError) as half:
        asked(stranger, mine, pair[0])
    assert half.value.code == "unknown_artifact"
