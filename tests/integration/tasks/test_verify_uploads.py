"""Whoever dies while an upload is verified is followed; nothing becomes a model twice or half."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import pytest
from sqlalchemy import select

from enginefarm.digest import digest_of
from enginefarm.errors import Unavailable
from enginefarm.state import UploadState
from enginefarm.upload import AskedPart
from intake.findings import ModelFound
from intake.reader import Reader
from storage import access, uploads
from storage.models import Blob, Model
from storage.objects import S3Objects
from storage.parts import S3Parts
from tasks import model_uploads, verify_uploads
from tasks.farm import Farm
from tasks.tidy_uploads import tidy
from tasks.verify_uploads import verify_due
from tests.integration.tasks.parts_waiting import (
    FILES,
    LIMITS,
    declared,
    lease_ends,
    models,
    row,
    waiting,
)


@pytest.fixture
def tenant_id(farm: Farm) -> str:
    with farm.database.transaction() as session:
        return access.ensure_tenant(session, "acme").id


@pytest.fixture
def files() -> dict[str, bytes]:
    return dict(FILES)


class _Death(BaseException):
    """What no step of ours catches: the process is gone."""


@pytest.mark.parametrize("step", ["_hashed", "_keep", "promote"])
def test_a_verifier_that_dies_is_followed_when_its_lease_has_ended(
    farm: Farm,
    tenant_id: str,
    files: dict[str, bytes],
    step: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    upload_id = waiting(farm, tenant_id, files)
    calls = iter(range(9))

    def die(*_: object) -> None:
        if next(calls):
            return
        raise _Death

    with monkeypatch.context() as patch:
        patch.setattr(S3Parts if step == "promote" else verify_uploads, step, die)
        with pytest.raises(_Death):
            verify_due(farm, Reader())
    early = verify_due(farm, Reader())
    lease_ends(farm, upload_id)
    late = verify_due(farm, Reader())

    assert (early, late) == (0, 1)
    assert row(farm, upload_id).state is UploadState.DONE
    assert models(farm, tenant_id) == [row(farm, upload_id).model]


def test_a_verifier_that_was_thought_dead_ends_nothing(
    farm: Farm, tenant_id: str, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id = waiting(farm, tenant_id, files)
    real, inside = verify_uploads._keep, list[int]()

    def overtaken(*arguments: object) -> None:
        if not inside:
            inside.append(1)
            lease_ends(farm, upload_id)
            verify_due(farm, Reader())
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(verify_uploads, "_keep", overtaken)
    verify_due(farm, Reader())

    assert row(farm, upload_id).attempts == 2
    assert row(farm, upload_id).state is UploadState.DONE
    assert len(models(farm, tenant_id)) == 1


def test_a_verifier_whose_upload_another_has_taken_up_ends_nothing(
    farm: Farm, tenant_id: str, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other has not ended, either: only whoever came last may."""
    upload_id = waiting(farm, tenant_id, files)
    real = verify_uploads._keep

    def overtaken(*arguments: object) -> None:
        lease_ends(farm, upload_id)
        with farm.database.transaction() as session:
            assert uploads.claim(session, 60) is not None
        real(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(verify_uploads, "_keep", overtaken)
        verify_due(farm, Reader())

    assert row(farm, upload_id).state is UploadState.VERIFYING
    assert models(farm, tenant_id) == []


def test_racing_verifiers_take_each_upload_once(
    farm: Farm, tenant_id: str, files: dict[str, bytes]
) -> None:
    made = [waiting(farm, tenant_id, files | {"w.bin": bytes(16) + bytes([n])}) for n in range(3)]
    with ThreadPoolExecutor(4) as pool:
        taken = sum(pool.map(lambda _: verify_due(farm, Reader()), range(6)))

    assert taken == 3
    assert {row(farm, upload_id).attempts for upload_id in made} == {1}
    assert {row(farm, upload_id).state for upload_id in made} == {UploadState.DONE}


def test_an_upload_that_is_removed_while_it_is_verified_becomes_nothing(
    farm: Farm, tenant_id: str, files: dict[str, bytes]
) -> None:
    upload_id = waiting(farm, tenant_id, files)

    class Slow(Reader):
        def model(self, path: Path) -> ModelFound:
            model_uploads.cancel(farm, tenant_id, upload_id)
            return Reader().model(path)

    verify_due(farm, Slow())
    tidy(farm)

    assert row(farm, upload_id).state is UploadState.CANCELLED
    assert models(farm, tenant_id) == []
    with farm.database.transaction() as session:
        assert session.scalars(select(Blob)).all() == []


def test_a_bucket_that_is_away_keeps_the_upload_waiting(
    farm: Farm, tenant_id: str, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id = waiting(farm, tenant_id, files)

    def away(_parts: object, _whole: object) -> NoReturn:
        raise Unavailable("The bucket does not answer as it should.", code="bucket_away")

    with monkeypatch.context() as patch:
        patch.setattr(S3Parts, "stream", away)
        patch.setattr(S3Objects, "probe", lambda _: away(farm.objects.parts, None))
        for _ in range(7):
            with pytest.raises(Unavailable):
                verify_due(farm, Reader())
    assert (row(farm, upload_id).state, row(farm, upload_id).attempts) == (
        UploadState.VERIFYING,
        0,
    )
    verify_due(farm, Reader())

    assert row(farm, upload_id).state is UploadState.DONE


def test_a_mistake_of_the_farm_is_tried_some_times_and_then_told(
    farm: Farm, tenant_id: str, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id = waiting(farm, tenant_id, files)

    def mistake(*_: object) -> None:
        raise KeyError("w")

    monkeypatch.setattr(verify_uploads, "_keep", mistake)
    for _ in range(5):
        assert row(farm, upload_id).state is UploadState.VERIFYING
        with pytest.raises(KeyError):
            verify_due(farm, Reader())
        if row(farm, upload_id).state is UploadState.VERIFYING:
            lease_ends(farm, upload_id)

    failure = row(farm, upload_id).failure
    assert row(farm, upload_id).state is UploadState.FAILED
    assert failure is not None
    assert failure["code"] == "internal"
    assert "KeyError" in failure["why"]


def test_the_lease_is_held_while_something_takes_long(
    farm: Farm, tenant_id: str, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id = waiting(farm, tenant_id, files)
    monkeypatch.setattr(verify_uploads, "_BEAT_S", 0.02)
    beats = threading.Event()

    class Slow(Reader):
        def model(self, path: Path) -> ModelFound:
            lease_ends(farm, upload_id)
            beats.clear()
            assert beats.wait(20)
            assert beats.is_set()
            return Reader().model(path)

    verify_due(farm, Slow(), alive=beats.set)

    assert row(farm, upload_id).attempts == 1
    assert row(farm, upload_id).state is UploadState.DONE


def test_two_who_begin_a_file_at_once_share_its_transfer(
    farm: Farm, tenant_id: str, files: dict[str, bytes]
) -> None:
    upload_id = declared(farm, tenant_id, files)
    part = AskedPart(file=0, number=1, digest=digest_of(files["m.onnx"]))
    with ThreadPoolExecutor(4) as pool:
        made = list(
            pool.map(
                lambda _: model_uploads.slots(farm, tenant_id, upload_id, [part], LIMITS)[0].url,
                range(4),
            )
        )
    transfer = row(farm, upload_id).transfers["0"]

    assert all(url is not None and f"uploadId={transfer}" in url for url in made)


def test_what_need_not_be_sent_and_has_gone_since_is_asked_for_again(
    farm: Farm, tenant_id: str, files: dict[str, bytes]
) -> None:
    """A rule of retention may remove a model between its declaration and its completion."""
    waiting(farm, tenant_id, files)
    verify_due(farm, Reader())
    again = declared(farm, tenant_id, files)
    farm.objects.remove(digest_of(files["w.bin"]))
    model_uploads.complete(farm, tenant_id, again)
    verify_due(farm, Reader())
    failure = row(farm, again).failure
    once_more = row(farm, declared(farm, tenant_id, files)).files

    assert failure is not None
    assert failure["code"] == "upload_lost"
    assert [file["present"] for file in once_more] == [True, False]


def test_a_model_that_is_here_already_is_the_same_one(
    farm: Farm, tenant_id: str, files: dict[str, bytes]
) -> None:
    first = waiting(farm, tenant_id, files)
    verify_due(farm, Reader())
    with farm.database.transaction() as session:
        upload = uploads.get(session, tenant_id, declared(farm, tenant_id, files))
    model_uploads.complete(farm, tenant_id, upload.id)
    verify_due(farm, Reader())
    with farm.database.transaction() as session:
        count = len(session.scalars(select(Model)).all())

    assert (upload.size, count) == (0, 1)
    assert row(farm, upload.id).model == row(farm, first).model
