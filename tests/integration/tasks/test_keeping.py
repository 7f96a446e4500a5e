"""What an operator does not keep goes when its time is over; what somebody needs stays."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, select, text

from enginefarm.digest import digest_of
from enginefarm.errors import NotFound
from enginefarm.state import ArtifactState, BuildState, JobState, Stage
from storage import artifacts, blobs, builds, catalogue, events
from storage.database import Session, now
from storage.keeping import SHELVES
from storage.models import Artifact, Attempt, Blob, Job
from storage.retention import Rule, Terms, is_due
from tasks.cancel import cancel
from tasks.farm import Farm
from tasks.keeping import Keeper
from tasks.submit import Requester, submit
from tasks.sweep import Sweeper
from tests.integration.tasks.ageing import let_pass
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import Scene, add_model

DAY = 86_400.0
ALL = Terms(dict.fromkeys(Rule, 30.0))


def keep(farm: Farm, terms: Terms = ALL) -> None:
    """Go once through all the rules."""
    keeper = Keeper(farm, terms)
    for _ in range(1000):
        keeper.turn()
        if keeper.rounds:
            return
    pytest.fail("the round does not end")


def sweep(farm: Farm) -> None:
    hasty = replace(farm, policy=replace(farm.policy, garbage_grace_s=-1.0, sweep_every_s=0.0))
    sweeper = Sweeper(hasty)
    while not sweeper.rounds:
        sweeper.turn()


def published(scene: Scene, node: FakeNode, **fields: object) -> str:
    build_id = scene.accept(scene.spec(**fields)).build.id
    scene.run(node, build_id)
    scene.publish()
    return build_id


def outputs(scene: Scene, build_id: str, stage: Stage = Stage.COMPILE) -> list[str]:
    result = scene.job(build_id, stage).result or {}
    return [file["digest"] for file in result["outputs"]]


def has(scene: Scene, digest: str) -> bool:
    """Tell whether the tenant's right to bytes is there, and the bytes are."""
    with scene.farm.database.transaction() as session:
        row = blobs.find(session, scene.tenant_id, digest)
    return row is not None and scene.bucket.head(digest) is not None


def test_an_old_log_goes_and_its_attempt_says_so(scene: Scene, node: FakeNode) -> None:
    build_id = published(scene, node)
    job = scene.job(build_id, Stage.COMPILE)
    log = scene.attempts(job)[0].log_digest
    assert log is not None
    keep(scene.farm)
    assert has(scene, log)
    let_pass(scene.farm, 31 * DAY)
    keep(scene.farm, Terms({Rule.LOGS: 30}))
    sweep(scene.farm)

    (attempt,) = scene.attempts(job)
    assert attempt.log_expired_at is not None
    assert (attempt.state, attempt.log_tail) == (JobState.SUCCEEDED, "")
    assert scene.bucket.head(log) is None
    digest = (scene.job(build_id, Stage.PUBLISH).result or {})["artifact"]
    assert scene.verified(digest).digest == digest


def test_the_result_of_a_build_that_failed_goes_and_the_cache_forgets_it(
    scene: Scene, node: FakeNode
) -> None:
    build_id = scene.submit()
    scene.do(node, build_id, Stage.CHECK)
    scene.do(node, build_id, Stage.COMPILE)
    cancel(scene.farm, scene.tenant_id, build_id)
    (engine,) = outputs(scene, build_id)
    let_pass(scene.farm, 29 * DAY)
    keep(scene.farm)
    assert has(scene, engine)
    let_pass(scene.farm, 2 * DAY)
    keep(scene.farm, Terms({Rule.RESULTS: 30}))
    sweep(scene.farm)

    assert not has(scene, engine)
    assert scene.bucket.head(engine) is None
    assert scene.job(build_id, Stage.COMPILE).result_expired_at is not None
    second = published(scene, node)
    assert scene.job(second, Stage.COMPILE).cached_from is None
    assert scene.state(second) is BuildState.SUCCEEDED


def test_a_result_that_a_build_under_way_took_from_the_cache_stays(
    scene: Scene, node: FakeNode
) -> None:
    first = scene.submit()
    scene.do(node, first, Stage.CHECK)
    scene.do(node, first, Stage.COMPILE)
    cancel(scene.farm, scene.tenant_id, first)
    second = scene.submit()
    assert scene.job(second, Stage.COMPILE).cached_from == scene.job(first, Stage.COMPILE).id
    let_pass(scene.farm, 31 * DAY)
    keep(scene.farm)
    sweep(scene.farm)
    scene.run(node, second)
    scene.publish()

    assert scene.state(second) is BuildState.SUCCEEDED
    let_pass(scene.farm, 62 * DAY)
    keep(scene.farm)
    sweep(scene.farm)
    digest = (scene.job(second, Stage.PUBLISH).result or {})["artifact"]
    for file in scene.verified(digest).manifest.layers:
        scene.bucket.confirm(file.digest, file.size)


def test_a_quarantined_engine_goes_and_manifest_and_report_stay(
    scene: Scene, node: FakeNode
) -> None:
    node.cosine = 0.5
    build_id = published(scene, node, gates=[{"metric": "cosine", "at_least": 0.9}])
    (engine,) = outputs(scene, build_id)
    let_pass(scene.farm, 31 * DAY)
    keep(scene.farm, Terms({Rule.RESULTS: 30}))
    assert has(scene, engine), "the rule of results is not that of quarantined engines"
    keep(scene.farm, Terms({Rule.QUARANTINED: 30}))
    sweep(scene.farm)

    assert not has(scene, engine)
    with scene.farm.database.transaction() as session:
        (row,) = session.scalars(select(Artifact)).all()
        named = artifacts.get(session, scene.tenant_id, row.digest)
        gone = catalogue.expired(session, scene.tenant_id, "blobs", engine)
    assert (named.state, named.engine_expired_at is None) == (ArtifactState.QUARANTINED, False)
    assert gone is not None
    assert gone.name == row.digest
    assert has(scene, row.digest)
    again = scene.submit(gates=[{"metric": "cosine", "at_least": 0.9}])
    assert scene.job(again, Stage.CHECK).state is JobState.QUEUED
    assert scene.job(again, Stage.COMPILE).cached_from is None


@pytest.mark.usefixtures("node")
def test_a_model_that_nothing_uses_goes_and_a_submit_says_to_upload_it_again(
    scene: Scene,
) -> None:
    data = b"a model that is forgotten"
    model = add_model(scene.farm, scene.tenant_id, data)
    let_pass(scene.farm, 31 * DAY)
    keep(scene.farm, Terms({Rule.LOGS: 30}))
    assert has(scene, digest_of(data)), "models are kept for ever unless the operator says so"
    keep(scene.farm)
    sweep(scene.farm)

    assert not has(scene, digest_of(data))
    scene.model = model
    with pytest.raises(NotFound) as refused:
        scene.submit()
    assert refused.value.code == "model_expired"
    assert "ENGINEFARM_MODELS_KEPT_DAYS" in refused.value.why
    assert "again" in refused.value.fix
    assert add_model(scene.farm, scene.tenant_id, data) == model
    assert scene.submit()


def test_a_model_stays_while_a_build_is_under_way_or_its_artifact_is_out(
    scene: Scene, node: FakeNode
) -> None:
    under_way = scene.submit()
    let_pass(scene.farm, 31 * DAY)
    keep(scene.farm)
    sweep(scene.farm)
    scene.run(node, under_way)
    scene.publish()
    assert scene.state(under_way) is BuildState.SUCCEEDED
    let_pass(scene.farm, 62 * DAY)
    keep(scene.farm)
    sweep(scene.farm)

    assert published(scene, node, seed=7)


def test_a_job_that_runs_on_for_others_keeps_the_model_of_its_cancelled_build(
    scene: Scene, node: FakeNode
) -> None:
    first = scene.submit()
    second = scene.submit()
    cancel(scene.farm, scene.tenant_id, first)
    let_pass(scene.farm, 31 * DAY)
    keep(scene.farm)
    sweep(scene.farm)
    scene.do(node, first, Stage.CHECK)
    scene.run(node, second)
    scene.publish()

    assert scene.state(second) is BuildState.SUCCEEDED


def test_bytes_that_another_model_has_too_stay(scene: Scene) -> None:
    shared = b"weights that two models have"
    weights = {"digest": digest_of(shared), "name": "weights.bin", "size": len(shared)}
    scene.bucket.put_bytes(digest_of(shared), shared, "application/octet-stream")

    def with_weights(name: str) -> None:
        with scene.farm.database.transaction() as session:
            blobs.record(session, scene.tenant_id, digest_of(shared), len(shared), "a/b")
            catalogue.add_model(
                session,
                scene.tenant_id,
                digest=digest_of(name.encode()),
                name=name,
                size=len(shared),
                files=[weights],
                interface={"inputs": [], "outputs": [], "opsets": {}, "node_count": 1},
            )

    with_weights("old")
    let_pass(scene.farm, 31 * DAY)
    with_weights("new")
    keep(scene.farm)

    with scene.farm.database.transaction() as session:
        names = [row.name for row in catalogue.list_models(session, scene.tenant_id, 9)]
    assert names == ["new"]
    assert has(scene, digest_of(shared))


@pytest.mark.usefixtures("node")
def test_a_submit_and_a_removal_of_its_model_take_turns(scene: Scene) -> None:
    let_pass(scene.farm, 31 * DAY)
    with scene.farm.database.transaction() as session:
        before = now() - timedelta(days=30)
        (model,) = SHELVES[Rule.MODELS].page(session, before, None, 10)
    assert is_due(model, before)

    with ThreadPoolExecutor(1) as pool, scene.farm.database.transaction() as session:
        builds.lock_tenant(session, scene.tenant_id)
        removing = pool.submit(Keeper(scene.farm, ALL)._remove, model)
        submitted = _submit_within(scene, session)
        assert not removing.done()
        session.commit()
        assert removing.result(30) is False

    assert scene.state(submitted) is BuildState.RUNNING
    with scene.farm.database.transaction() as session:
        assert catalogue.get_model(session, scene.tenant_id, scene.model).name == "doubler"


def _submit_within(scene: Scene, session: Session) -> str:
    accepted = submit(session, scene.farm.policy, Requester(scene.tenant_id), scene.spec())
    return accepted.build.id


def test_events_go_and_their_numbers_are_not_given_again(scene: Scene, node: FakeNode) -> None:
    build_id = published(scene, node)
    last = scene.build(build_id).event_seq
    let_pass(scene.farm, 31 * DAY)
    keep(scene.farm)

    assert scene.events(build_id) == []
    build = scene.build(build_id)
    assert (build.event_seq, build.events_expired_at is None) == (last, False)
    with scene.farm.database.transaction() as session:
        events.add(session, builds.get(session, scene.tenant_id, build_id), "build", {})
    assert [row.seq for row in scene.events(build_id)] == [last + 1]


@pytest.mark.usefixtures("node")
def test_a_round_ends_though_there_is_more_than_a_batch_that_stays(scene: Scene) -> None:
    with ThreadPoolExecutor(4) as pool:
        models = list(
            pool.map(lambda n: add_model(scene.farm, scene.tenant_id, b"model %d" % n), range(130))
        )
    for model in models[::2]:
        scene.model = model
        scene.submit()
    let_pass(scene.farm, 31 * DAY)
    keep(scene.farm)

    with scene.farm.database.transaction() as session:
        left = {row.digest for row in catalogue.list_models(session, scene.tenant_id, 500)}
    assert left == set(models[::2])


def test_no_terms_remove_nothing(scene: Scene, node: FakeNode) -> None:
    published(scene, node)
    let_pass(scene.farm, 10_000 * DAY)

    def rows() -> list[int]:
        with scene.farm.database.transaction() as session:
            return [len(session.scalars(select(kind)).all()) for kind in (Blob, Job, Attempt)]

    there = rows()
    keep(scene.farm, Terms())
    sweep(scene.farm)
    assert rows() == there


_WORKED_ON = {
    Rule.LOGS: "attempts",
    Rule.RESULTS: "builds",
    Rule.QUARANTINED: "artifacts",
    Rule.MODELS: "models",
    Rule.DATASETS: "datasets",
    Rule.EVENTS: "builds",
}


@pytest.mark.parametrize("rule", Rule)
def test_what_is_due_is_found_by_an_index(scene: Scene, rule: Rule) -> None:
    asked: list[tuple[str, Any]] = []

    def note(_con: object, _cur: object, statement: str, values: object, *_more: object) -> None:
        asked.append((statement, values))

    with scene.farm.database.transaction() as session:
        connection = session.connection()
        event.listen(connection, "before_cursor_execute", note)
        SHELVES[rule].page(session, now(), None, 10)
        event.remove(connection, "before_cursor_execute", note)
        session.execute(text("SET LOCAL enable_seqscan = off"))
        statement, values = asked[0]
        plan = connection.exec_driver_sql(f"EXPLAIN {statement}", values).scalars().all()

    table = _WORKED_ON[rule]
    assert not [line for line in plan if f"Seq Scan on {table}" in line], "\n".join(plan)
    assert any(f"on {table}" in line and "Index" in line for line in plan), "\n".join(plan)
