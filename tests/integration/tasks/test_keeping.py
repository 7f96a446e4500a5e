"""What an operator does not keep goes when its time is over; what somebody needs stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

import pytest
from sqlalchemy import event, select, text

from enginefarm.state import ArtifactState, BuildState, JobState, Stage
from storage import artifacts, builds, catalogue, events, retention_rounds
from storage.database import now
from storage.keeping import SHELVES
from storage.models import Artifact, Attempt, Blob, Job
from storage.retention import Rule, Terms
from tasks.cancel import cancel
from tests.integration.tasks.ageing import let_pass
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.kept import DAY, has, keep, outputs, published, sweep
from tests.integration.tasks.scene import Scene


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
    scene.do(node, build_id, Stage.REPAIR)
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
    scene.do(node, first, Stage.REPAIR)
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
    assert scene.job(again, Stage.REPAIR).state is JobState.QUEUED
    assert scene.job(again, Stage.COMPILE).cached_from is None


def test_an_artifact_that_cannot_be_read_is_told_and_keeps_no_other(
    scene: Scene, node: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    node.cosine = 0.5
    gates = [{"metric": "cosine", "at_least": 0.9}]
    first = published(scene, node, gates=gates)
    second = published(scene, node, gates=gates, model=scene.other())
    with scene.farm.database.transaction() as session:
        broken = session.scalars(select(Artifact).where(Artifact.build_id == first)).one()
        broken.manifest, name = b"{}", broken.digest
    let_pass(scene.farm, 31 * DAY)
    keep(scene.farm)
    sweep(scene.farm)

    assert not has(scene, outputs(scene, second)[0])
    assert has(scene, outputs(scene, first)[0])
    said = capsys.readouterr()
    assert "retention_unreadable" in said.out + said.err
    assert name in said.out + said.err
    with scene.farm.database.transaction() as session:
        assert retention_rounds.unreadable(session) == {
            rule: rule == "quarantined" for rule in Rule
        }
        session.get_one(Artifact, (scene.tenant_id, name)).engine_expired_at = now()
    keep(scene.farm)
    with scene.farm.database.transaction() as session:
        assert set(retention_rounds.unreadable(session).values()) == {0}


def test_what_cannot_be_removed_keeps_no_other_and_a_rule_that_fails_stops_no_rule(
    scene: Scene, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> NoReturn:
        message = "a row that nobody has foreseen"
        raise ValueError(message)

    build_id = published(scene, node)
    let_pass(scene.farm, 31 * DAY)
    spoilt = {
        Rule.LOGS: replace(SHELVES[Rule.LOGS], page=fails),
        Rule.RESULTS: replace(SHELVES[Rule.RESULTS], remove=fails),
    }
    monkeypatch.setattr("tasks.keeping.SHELVES", SHELVES | spoilt)
    with scene.farm.database.transaction() as session:
        retention_rounds.note(session, Rule.LOGS, 2)
    keep(scene.farm)

    assert scene.build(build_id).events_expired_at is not None
    with scene.farm.database.transaction() as session:
        assert retention_rounds.unreadable(session)["logs"] == 2, "nothing new of what failed"


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


def test_events_that_a_job_tells_after_its_cancelled_build_has_ended_go_too(
    scene: Scene, node: FakeNode
) -> None:
    first, second = scene.submit(), scene.submit()
    work = node.take(scene.job(first, Stage.REPAIR))
    cancel(scene.farm, scene.tenant_id, first)
    let_pass(scene.farm, 31 * DAY)
    keep(scene.farm)
    assert scene.events(first) != [], "a job of it goes on, for the second build"
    node.tell(work, node.done(work))
    scene.settle()
    keep(scene.farm)

    assert scene.events(first) == []
    assert scene.build(first).events_expired_at is not None
    assert scene.events(second) != []


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
    Rule.TWINS: "jobs",
    Rule.QUARANTINED: "artifacts",
    Rule.CANDIDATES: "artifacts",
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
        # With few rows the planner would choose otherwise, by what it remembers of other tests.
        session.execute(text("SET LOCAL enable_seqscan = off"))
        session.execute(text("SET LOCAL enable_bitmapscan = off"))
        statement, values = asked[0]
        plan = connection.exec_driver_sql(f"EXPLAIN {statement}", values).scalars().all()

    table = _WORKED_ON[rule]
    assert not [line for line in plan if f"Seq Scan on {table}" in line], "\n".join(plan)
    assert any(f"on {table}" in line and "Index" in line for line in plan), "\n".join(plan)
