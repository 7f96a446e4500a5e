"""What nobody needs leaves the bucket after a grace, and never what somebody is about to use."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import NoReturn

import pytest

from enginefarm.digest import digest_of
from enginefarm.state import BuildState, JobState, Stage, UploadState
from intake.reader import Reader
from storage import garbage
from storage.database import now
from storage.models import Garbage
from storage.parts import S3Parts
from tasks import verify_uploads
from tasks.farm import Farm
from tasks.sweep import Sweeper, remove
from tasks.verify_uploads import verify_due
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.life.traps import Killed
from tests.integration.tasks.parts_waiting import FILES, lease_ends, row, waiting
from tests.integration.tasks.scene import Scene

OCTETS = "application/octet-stream"


@pytest.fixture
def hasty(farm: Farm) -> Farm:
    """Return the farm with no grace, so that everything in the bucket is old enough."""
    return replace(farm, policy=replace(farm.policy, garbage_grace_s=-1.0, sweep_every_s=0.0))


@pytest.fixture
def sweep(hasty: Farm) -> Callable[[], None]:
    def until_done() -> None:
        sweeper = Sweeper(hasty)
        while not sweeper.rounds:
            sweeper.turn()

    return until_done


def orphan(scene: Scene, data: bytes = b"left behind by an attempt that died") -> str:
    scene.bucket.put_bytes(digest_of(data), data, OCTETS)
    return digest_of(data)


def test_what_no_row_refers_to_goes_and_all_else_stays(
    scene: Scene, node: FakeNode, sweep: Callable[[], None]
) -> None:
    build_id = scene.submit()
    scene.run(node, build_id)
    scene.publish()
    lost = orphan(scene)
    sweep()

    assert scene.bucket.head(lost) is None
    digest = (scene.job(build_id, Stage.PUBLISH).result or {})["artifact"]
    for layer in (scene.verified(digest).manifest.config, *scene.verified(digest).manifest.layers):
        scene.bucket.confirm(layer.digest, layer.size)
    second = scene.submit(seed=3)
    scene.run(node, second)
    scene.publish()
    assert scene.state(second) is BuildState.SUCCEEDED


def test_one_round_removes_all_that_is_due_however_much_it_is(
    scene: Scene, sweep: Callable[[], None]
) -> None:
    with ThreadPoolExecutor(8) as pool:
        lost = list(pool.map(lambda n: orphan(scene, b"left behind %d" % n), range(120)))
    sweep()

    assert [digest for digest in lost if scene.bucket.head(digest) is not None] == []


def test_within_its_grace_nothing_goes(scene: Scene) -> None:
    lost = orphan(scene)
    sweeper = Sweeper(scene.farm)
    for _ in range(50):
        sweeper.turn()

    assert scene.bucket.head(lost) is not None
    with scene.farm.database.transaction() as session:
        assert session.get(Garbage, lost) is None


def test_what_an_attempt_may_upload_stays(
    scene: Scene, node: FakeNode, sweep: Callable[[], None]
) -> None:
    build_id = scene.submit()
    work = node.take(scene.job(build_id, Stage.REPAIR))
    message = node.done(work)
    sweep()
    node.tell(work, message)
    scene.settle()

    assert scene.job(build_id, Stage.REPAIR).state is JobState.SUCCEEDED
    scene.bucket.confirm(message.outputs[0].digest, message.outputs[0].size)


def test_what_an_upload_in_parts_is_about_to_refer_to_stays(
    scene: Scene, farm: Farm, sweep: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its copies lie where blobs do, however long the last of them takes, before its row is."""
    upload_id = waiting(farm, scene.tenant_id, FILES)
    real = verify_uploads._keep

    def late(*arguments: object) -> None:
        sweep()
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(verify_uploads, "_keep", late)
    verify_due(farm, Reader())

    assert row(farm, upload_id).state is UploadState.DONE
    for data in FILES.values():
        scene.bucket.confirm(digest_of(data), len(data))


def test_bytes_that_are_about_to_be_stored_again_are_not_removed(scene: Scene, hasty: Farm) -> None:
    lost = orphan(scene)
    with scene.farm.database.transaction() as session:
        garbage.mark(session, [lost])
    with scene.farm.database.transaction() as session:
        garbage.keep(session, [lost])

    assert remove(hasty, [lost], now() + timedelta(seconds=1)) == 0
    assert scene.bucket.head(lost) is not None


def test_who_stores_bytes_waits_for_their_removal_and_then_stores_them(
    scene: Scene, hasty: Farm
) -> None:
    data = b"removed and stored at the same moment"
    lost = orphan(scene, data)
    with scene.farm.database.transaction() as session:
        garbage.mark(session, [lost])

    def store() -> None:
        with scene.farm.database.transaction() as other:
            garbage.keep(other, [lost])
        scene.bucket.put_bytes(lost, data, OCTETS)

    with ThreadPoolExecutor(1) as pool:
        with scene.farm.database.transaction() as session:
            assert garbage.claim(session, lost, now() + timedelta(seconds=1))
            storing = pool.submit(store)
            scene.bucket.remove(lost)
        storing.result(30)

    scene.bucket.confirm(lost, len(data))
    assert remove(hasty, [lost], now() + timedelta(seconds=1)) == 0


def test_a_verifier_that_dies_while_it_copies_leaves_nothing_for_ever(
    scene: Scene, farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id = waiting(farm, scene.tenant_id, FILES)

    def die(*_: object) -> NoReturn:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(S3Parts, "_copied", die)
        with pytest.raises(Killed):
            verify_due(farm, Reader())
    left = copies(scene)
    lease_ends(farm, upload_id)
    verify_due(farm, Reader())
    still = copies(scene)
    sweeper = Sweeper(replace(farm, policy=replace(farm.policy, upload_grace_s=-60.0)))
    while not sweeper.rounds:
        sweeper.turn()

    assert row(farm, upload_id).state is UploadState.DONE
    assert len(left) == 1
    assert still == left, "whoever follows does not know of it"
    assert copies(scene) == []


def copies(scene: Scene) -> list[str]:
    """Return the copies to where blobs lie that were begun and have not ended."""
    client, bucket = scene.bucket._client, scene.bucket._bucket
    listed = client.list_multipart_uploads(Bucket=bucket, Prefix="sha256/")
    return [each["UploadId"] for each in listed.get("Uploads", [])]
