"""Whoever dies while an upload is verified is followed; nothing becomes a model twice or half."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select

from enginefarm.digest import digest_of
from enginefarm.errors import Unavailable
from enginefarm.state import UploadState
from enginefarm.upload import AskedPart, DeclaredFile, UploadSpec
from intake.findings import ModelFound
from intake.reader import Reader
from storage import access, catalogue, uploads
from storage.database import now
from storage.models import Blob, Model, Upload
from storage.parts import S3Parts, Whole
from tasks import model_uploads, verify_uploads
from tasks.farm import Farm
from tasks.part_plan import UploadLimits, folder
from tasks.verify_uploads import tidy, verify_due
from tests.integration.api.made import with_external

LIMITS = UploadLimits(part_bytes=5 << 20)


@pytest.fixture
def tenant_id(farm: Farm) -> str:
    with farm.database.transaction() as session:
        return access.ensure_tenant(session, "acme").id


@pytest.fixture
def files() -> dict[str, bytes]:
    return {"m.onnx": with_external("w.bin"), "w.bin": b"0123456789abcdef"}


def declared(farm: Farm, tenant_id: str, files: dict[str, bytes]) -> str:
    spec = UploadSpec(
        files=[
            DeclaredFile(name=name, size=len(data), digest=digest_of(data))
            for name, data in files.items()
        ]
    )
    return model_uploads.declare(farm, tenant_id, spec, "m", LIMITS).id


def waiting(farm: Farm, tenant_id: str, files: dict[str, bytes]) -> str:
    """Return an upload that waits to be verified."""
    upload_id = declared(farm, tenant_id, files)
    asked = [
        AskedPart(file=at, number=1, digest=digest_of(data))
        for at, data in enumerate(files.values())
    ]
    slots = model_uploads.slots(farm, tenant_id, upload_id, asked, LIMITS)
    for slot, data in zip(slots, files.values(), strict=True):
        assert slot.url is not None
        assert httpx.put(slot.url, headers=slot.headers, content=data).status_code == 200
    model_uploads.complete(farm, tenant_id, upload_id)
    return upload_id


def row(farm: Farm, upload_id: str) -> Upload:
    with farm.database.transaction() as session:
        return session.get_one(Upload, upload_id)


def models(farm: Farm, tenant_id: str) -> list[str]:
    with farm.database.transaction() as session:
        return [each.digest for each in catalogue.list_models(session, tenant_id, 10)]


def lease_ends(farm: Farm, upload_id: str) -> None:
    with farm.database.transaction() as session:
        session.get_one(Upload, upload_id).leased_until = now() - timedelta(seconds=1)


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

    def away(_parts: S3Parts, _whole: Whole) -> Iterator[bytes]:
        raise Unavailable("The bucket does not answer as it should.", code="bucket_away")

    with monkeypatch.context() as patch:
        patch.setattr(S3Parts, "stream", away)
        with pytest.raises(Unavailable):
            verify_due(farm, Reader())
    assert row(farm, upload_id).state is UploadState.VERIFYING
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


def test_what_nobody_goes_on_with_is_given_up_after_its_grace(
    farm: Farm, tenant_id: str, files: dict[str, bytes]
) -> None:
    upload_id = declared(farm, tenant_id, files)
    part = AskedPart(file=0, number=1, digest=digest_of(files["m.onnx"]))
    [slot] = model_uploads.slots(farm, tenant_id, upload_id, [part], LIMITS)
    assert slot.url is not None
    httpx.put(slot.url, headers=slot.headers, content=files["m.onnx"])
    tidy(farm)
    before = row(farm, upload_id)
    hasty = replace(farm, policy=replace(farm.policy, upload_grace_s=-1.0))
    tidy(hasty)
    after = row(farm, upload_id)
    late = httpx.put(slot.url, headers=slot.headers, content=files["m.onnx"])
    tidy(hasty)

    assert before.state is UploadState.OPEN
    assert (after.state, after.cleared) == (UploadState.ABANDONED, True)
    assert late.status_code == 404
    assert farm.objects.parts.listing(f"{folder(upload_id)}0", before.transfers["0"]) == {}
    with farm.database.transaction() as session:
        assert session.get(Upload, upload_id) is None


def test_an_upload_that_is_being_verified_is_never_given_up(
    farm: Farm, tenant_id: str, files: dict[str, bytes]
) -> None:
    upload_id = waiting(farm, tenant_id, files)
    tidy(replace(farm, policy=replace(farm.policy, upload_grace_s=-1.0)))
    verify_due(farm, Reader())

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
