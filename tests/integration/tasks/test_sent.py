"""What an attempt names counts if its node had the bytes or its tenant has them, and only then."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from sqlalchemy import text

from enginefarm.digest import digest_of
from enginefarm.errors import Failure, LeaseLost, TooLarge
from enginefarm.manifest import LOG_TYPE
from enginefarm.state import Blame, JobState, Stage
from storage import attempts as attempt_rows
from storage import blobs, garbage
from storage.keeping.released import release
from storage.staging import staged_at
from tasks import sent
from tasks.farm import Farm
from tasks.messages import Assignment, FinishRequest, OutputFile
from tasks.sweep import Sweeper
from tests.contract.stores import overwrite
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.life.bucket import clear
from tests.integration.tasks.scene import Scene

SECRET = b"what another tenant keeps"


def log_file(data: bytes) -> OutputFile:
    return OutputFile(
        role="log", name="job.log", digest=digest_of(data), size=len(data), media_type=LOG_TYPE
    )


def keep(scene: Scene, data: bytes) -> None:
    """Let a tenant have bytes."""
    scene.bucket.put_bytes(digest_of(data), data, LOG_TYPE)
    with scene.farm.database.transaction() as session:
        blobs.record(session, scene.tenant_id, digest_of(data), len(data), LOG_TYPE)


def has(scene: Scene, data: bytes) -> bool:
    with scene.farm.database.transaction() as session:
        return blobs.find(session, scene.tenant_id, digest_of(data)) is not None


def code_of(scene: Scene, build_id: str, stage: Stage, at: int = 0) -> str:
    return str((scene.attempts(scene.job(build_id, stage))[at].failure or {})["code"])


def failed(work: Assignment, log: OutputFile) -> FinishRequest:
    return FinishRequest(
        attempt=work.attempt,
        lease_token=work.lease_token,
        state=JobState.FAILED,
        failure=Failure(code="stage_error", blame=Blame.NODE, message="It did not work."),
        log=log,
    )


@pytest.fixture(autouse=True)
def an_empty_bucket(farm: Farm) -> None:
    """Let nothing be left that attempts of other tests have sent."""
    clear(farm.objects)


def left(scene: Scene) -> list[str]:
    return [place for place, _ in scene.bucket.staging.listing()]


@pytest.fixture
def repairing(scene: Scene, node: FakeNode) -> tuple[str, Assignment]:
    """Return a build, and its repair in the hands of the node."""
    build_id = scene.submit()
    return build_id, node.take(scene.job(build_id, Stage.REPAIR))


@pytest.fixture
def sweep(scene: Scene) -> Callable[[], None]:
    def until_done() -> None:
        sweeper = Sweeper(scene.farm)
        while not sweeper.rounds:
            sweeper.turn()

    return until_done


def test_an_output_that_is_named_and_not_sent_gives_no_right_to_what_lies_under_its_digest(
    scene: Scene, node: FakeNode, repairing: tuple[str, Assignment]
) -> None:
    keep(Scene.on(scene.farm, "rival"), SECRET)
    build_id, work = repairing
    message = node.done(work)
    theirs = {"digest": digest_of(SECRET), "size": len(SECRET)}
    named = message.outputs[0].model_copy(update=theirs)
    (slot,) = node.places(work, named)  # and nothing is sent
    node.tell(work, message.model_copy(update={"outputs": [named]}))
    scene.settle()

    assert slot.url is not None, "that others have these bytes is not told"
    assert code_of(scene, build_id, Stage.REPAIR) == "blob_missing"
    assert not has(scene, SECRET)
    scene.bucket.confirm(digest_of(SECRET), len(SECRET))


def test_a_log_that_is_named_and_not_sent_gives_no_right_either(
    scene: Scene, node: FakeNode, repairing: tuple[str, Assignment]
) -> None:
    keep(Scene.on(scene.farm, "rival"), SECRET)
    build_id, work = repairing
    node.places(work, log_file(SECRET))
    node.tell(work, failed(work, log_file(SECRET)))

    assert scene.attempts(scene.job(build_id, Stage.REPAIR))[0].log_digest is None
    assert not has(scene, SECRET)


def test_who_makes_the_same_bytes_as_another_tenant_sends_them_and_has_them(
    scene: Scene, node: FakeNode, repairing: tuple[str, Assignment]
) -> None:
    keep(Scene.on(scene.farm, "rival"), SECRET)
    build_id, work = repairing
    made, log = node.made(work), log_file(SECRET)
    node.upload(work, [*made, (log, SECRET)])
    node.tell(work, node.done(work).model_copy(update={"log": log}))
    scene.settle()

    assert scene.job(build_id, Stage.REPAIR).state is JobState.SUCCEEDED
    assert scene.attempts(scene.job(build_id, Stage.REPAIR))[0].log_digest == digest_of(SECRET)
    assert has(scene, SECRET)


def test_what_the_tenant_has_need_not_be_sent_and_counts_though_a_rule_removes_it_meanwhile(
    scene: Scene, node: FakeNode, repairing: tuple[str, Assignment]
) -> None:
    build_id, work = repairing
    made, data = node.made(work)[0]
    keep(scene, data)
    (slot,) = node.places(work, made)
    message = node.done(work, upload=False)
    with scene.farm.database.transaction() as session:
        release(session, scene.tenant_id, [made.digest])
    assert slot.url is None
    assert not has(scene, data)
    node.tell(work, message)
    scene.settle()

    assert scene.job(build_id, Stage.REPAIR).state is JobState.SUCCEEDED
    assert has(scene, data)


def test_what_the_bucket_has_lost_must_be_sent_though_the_tenant_had_it(
    scene: Scene, node: FakeNode, repairing: tuple[str, Assignment]
) -> None:
    build_id, work = repairing
    made, data = node.made(work)[0]
    keep(scene, data)
    scene.bucket.remove(made.digest)
    node.tell(work, node.done(work))
    scene.settle()

    assert scene.job(build_id, Stage.REPAIR).state is JobState.SUCCEEDED
    scene.bucket.confirm(made.digest, made.size)


def test_what_one_attempt_sent_does_not_count_for_the_next(
    scene: Scene, node: FakeNode, repairing: tuple[str, Assignment]
) -> None:
    build_id, work = repairing
    made = node.made(work)
    node.upload(work, made)
    node.end(work, JobState.QUEUED)  # handed back
    scene.age(scene.job(build_id, Stage.REPAIR), "not_before", 60)
    again = node.take(scene.job(build_id, Stage.REPAIR))
    node.tell(again, node.done(again, upload=False))
    scene.settle()

    assert code_of(scene, build_id, Stage.REPAIR, 1) == "blob_missing"


@pytest.mark.parametrize("data", [b"", b"small", b"above what is read at once"], ids=len)
def test_what_was_sent_is_kept_whatever_its_size(
    scene: Scene,
    node: FakeNode,
    repairing: tuple[str, Assignment],
    data: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sent, "_AT_ONCE", 10)
    build_id, work = repairing
    (made, _), message = node.made(work)[0], node.done(work)
    made = made.model_copy(update={"digest": digest_of(data), "size": len(data)})
    node.upload(work, [(made, data)])
    overwrite(scene.bucket, made.digest, b"spoilt" * 2)
    node.tell(work, message.model_copy(update={"outputs": [made]}))
    scene.settle()

    assert scene.job(build_id, Stage.REPAIR).state is JobState.SUCCEEDED
    scene.bucket.confirm(made.digest, made.size)
    answer = httpx.get(scene.bucket.presign_get(made.digest))
    assert (answer.content, answer.headers["content-type"]) == (data, made.media_type)


def test_a_log_above_its_bound_is_not_kept_and_costs_nothing_else(
    scene: Scene,
    node: FakeNode,
    repairing: tuple[str, Assignment],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sent, "MOST_LOG_BYTES", len(b"built") - 1)
    build_id, work = repairing
    node.tell(work, node.done(work))
    scene.settle()

    assert scene.job(build_id, Stage.REPAIR).state is JobState.SUCCEEDED
    assert scene.attempts(scene.job(build_id, Stage.REPAIR))[0].log_digest is None


def test_nothing_of_what_attempts_sent_is_left_when_they_have_ended(
    scene: Scene, node: FakeNode, repairing: tuple[str, Assignment], sweep: Callable[[], None]
) -> None:
    build_id, work = repairing
    message = node.done(work)
    sweep()
    assert len(left(scene)) == 2
    node.tell(work, message)
    scene.settle()
    assert left(scene) == []

    check = node.take(scene.job(build_id, Stage.CHECK))
    node.done(check)
    node.fail(check, "stage_error", Blame.NODE)
    assert left(scene) == []


def test_what_comes_after_the_end_of_its_attempt_touches_nothing_and_is_swept(
    scene: Scene, node: FakeNode, repairing: tuple[str, Assignment], sweep: Callable[[], None]
) -> None:
    _, work = repairing
    ((made, data),) = node.made(work)
    (slot,) = node.places(work, made)
    assert slot.url is not None
    message = node.done(work)
    node.tell(work, message)
    scene.settle()
    scene.bucket.remove(made.digest)

    assert httpx.put(slot.url, content=data, headers=slot.headers).is_success
    with pytest.raises(LeaseLost):
        node.places(work, made)
    assert left(scene) == [staged_at(work.job_id, work.attempt, made.digest)]
    assert scene.bucket.head(made.digest) is None
    sweep()
    assert left(scene) == []


def test_an_attempt_cannot_ask_for_more_places_than_a_job_makes_files(
    scene: Scene,
    node: FakeNode,
    repairing: tuple[str, Assignment],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attempt_rows, "MOST_PLACES", 3)
    _, work = repairing
    node.places(work, *(log_file(b"%d" % at) for at in range(3)))
    with pytest.raises(TooLarge) as refused:
        node.places(work, log_file(b"one more"))

    assert refused.value.code == "too_many_places"
    assert len(node.places(work, log_file(b"1"))) == 1


def test_however_many_places_are_asked_for_the_database_has_room_for_the_locks(
    scene: Scene,
) -> None:
    """Its table of locks is one for all: who takes thousands of them ends everybody's work."""
    many = [digest_of(b"%d" % at) for at in range(20_000)]
    with scene.farm.database.transaction() as session:
        garbage.keep(session, many)
        held = session.scalar(
            text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = :pid"),
            {"pid": session.scalar(text("SELECT pg_backend_pid()"))},
        )

    assert held == 1024
