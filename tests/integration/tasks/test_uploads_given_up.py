"""What nobody goes on with is given up, and leaves the bucket."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from enginefarm.digest import digest_of
from enginefarm.state import UploadState
from enginefarm.upload import AskedPart
from intake.reader import Reader
from storage import access
from storage.models import Upload
from tasks import model_uploads
from tasks.farm import Farm
from tasks.part_plan import folder
from tasks.tidy_uploads import tidy
from tasks.verify_uploads import verify_due
from tests.integration.tasks.parts_waiting import (
    FILES,
    LIMITS,
    declared,
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
