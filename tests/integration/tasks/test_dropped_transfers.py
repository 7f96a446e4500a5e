"""An upload goes on although the bucket has dropped what was sent of it."""

from __future__ import annotations

import httpx
import pytest

from enginefarm.digest import digest_of
from enginefarm.errors import Conflict
from enginefarm.state import UploadState
from enginefarm.upload import AskedPart
from intake.reader import Reader
from storage import access
from storage.models import Upload
from tasks import model_uploads
from tasks.farm import Farm
from tasks.part_plan import folder
from tasks.verify_uploads import verify_due
from tests.integration.tasks.parts_waiting import FILES, LIMITS, declared, row, waiting

ASKED = [
    AskedPart(file=at, number=1, digest=digest_of(data)) for at, data in enumerate(FILES.values())
]


@pytest.fixture
def tenant_id(farm: Farm) -> str:
    with farm.database.transaction() as session:
        return access.ensure_tenant(session, "acme").id


def send(farm: Farm, tenant_id: str, upload_id: str) -> list[int]:
    slots = model_uploads.slots(farm, tenant_id, upload_id, ASKED, LIMITS)
    return [
        httpx.put(slot.url or "", headers=slot.headers, content=data).status_code
        for slot, data in zip(slots, FILES.values(), strict=True)
    ]


def test_what_the_bucket_has_dropped_is_begun_and_sent_again(farm: Farm, tenant_id: str) -> None:
    upload_id = declared(farm, tenant_id, FILES)
    send(farm, tenant_id, upload_id)
    before = row(farm, upload_id).transfers
    farm.objects.parts.clear(folder(upload_id))
    here = model_uploads.received(farm, row(farm, upload_id))
    again = send(farm, tenant_id, upload_id)
    model_uploads.complete(farm, tenant_id, upload_id)
    verify_due(farm, Reader())

    assert here == {0: [], 1: []}
    assert again == [200, 200]
    assert row(farm, upload_id).transfers.keys() == before.keys()
    assert row(farm, upload_id).state is UploadState.DONE


def test_who_asks_for_a_slot_while_it_is_completed_removes_nothing(
    farm: Farm, tenant_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_id = waiting(farm, tenant_id, dict(FILES))
    stale = Upload(
        id=upload_id,
        tenant_id=tenant_id,
        files=row(farm, upload_id).files,
        transfers={},
        state=UploadState.OPEN,
    )
    monkeypatch.setattr(model_uploads, "_announced", lambda *_, **__: stale)
    with pytest.raises(Conflict):
        model_uploads.slots(farm, tenant_id, upload_id, ASKED, LIMITS)
    verify_due(farm, Reader())

    assert row(farm, upload_id).state is UploadState.DONE
