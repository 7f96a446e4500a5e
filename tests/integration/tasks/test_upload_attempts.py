"""No upload is verified for ever, whatever keeps its verifiers from the end."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import pytest
from sqlalchemy import update

from enginefarm.digest import digest_of
from enginefarm.errors import Conflict, Unavailable
from enginefarm.state import UploadState
from enginefarm.upload import AskedPart
from intake.reader import Reader
from storage import access
from storage.models import UploadPart
from tasks import model_uploads, verify_uploads
from tasks.farm import Farm
from tasks.verify_uploads import verify_due
from tests.integration.tasks.parts_waiting import (
    FILES,
    LIMITS,
    declared,
    lease_ends,
    row,
    waiting,
)


@pytest.fixture
def tenant_id(farm: Farm) -> str:
    with farm.database.transaction() as session:
        return access.ensure_tenant(session, "acme").id


def outcome(farm: Farm, upload_id: str) -> tuple[UploadState, str | None]:
    found = row(farm, upload_id)
    return found.state, found.failure["code"] if found.failure else None


class _Death(BaseException):
    """What no step of ours catches: the process is gone."""


def test_a_part_that_is_named_twice_with_two_digests_is_refused(farm: Farm, tenant_id: str) -> None:
    upload_id = declared(farm, tenant_id, FILES)
    asked = [AskedPart(file=0, number=1, digest=digest_of(data)) for data in (b"1", b"2")]
    with pytest.raises(Conflict) as refused:
        model_uploads.slots(farm, tenant_id, upload_id, asked, LIMITS)

    assert refused.value.code == "part_differs"


def test_parts_that_the_bucket_does_not_join_fail_the_upload(farm: Farm, tenant_id: str) -> None:
    upload_id = waiting(farm, tenant_id, dict(FILES))
    with farm.database.transaction() as session:
        session.execute(update(UploadPart).values(digest=digest_of(b"other")))
    verify_due(farm, Reader())

    assert outcome(farm, upload_id) == (UploadState.FAILED, "part_corrupt")


@pytest.mark.parametrize("trouble", [_Death, Unavailable("No.", code="bucket_away")])
def test_an_upload_that_is_never_verified_to_its_end_fails_after_some_attempts(
    farm: Farm,
    tenant_id: str,
    monkeypatch: pytest.MonkeyPatch,
    trouble: BaseException | type[BaseException],
) -> None:
    upload_id = waiting(farm, tenant_id, dict(FILES))

    def fail(*_: object) -> NoReturn:
        raise trouble

    monkeypatch.setattr(verify_uploads, "_hashed", fail)
    for _ in range(5):
        with pytest.raises((_Death, Unavailable)):
            verify_due(farm, Reader())
        lease_ends(farm, upload_id)
    verify_due(farm, Reader())

    assert outcome(farm, upload_id) == (UploadState.FAILED, "internal")


class Unstartable(Reader):
    """A reader whose process cannot be started."""

    def model(self, *_: object) -> NoReturn:
        raise Unavailable("No.", code="reader_unavailable", why="There is no room.")


def test_an_upload_that_no_reader_can_be_started_for_fails_when_patience_ends(
    farm: Farm, tenant_id: str
) -> None:
    upload_id = waiting(farm, tenant_id, dict(FILES))
    for _ in range(7):
        with pytest.raises(Unavailable):
            verify_due(farm, Unstartable())
    assert outcome(farm, upload_id) == (UploadState.VERIFYING, None)

    verify_due(replace(farm, policy=replace(farm.policy, reader_patience_s=0.0)), Unstartable())
    failure = row(farm, upload_id).failure
    assert failure is not None
    assert (failure["code"], failure["blame"]) == ("reader_unavailable", "farm")
    assert "There is no room." in failure["why"]


def test_an_upload_is_read_when_a_reader_can_be_started_again(farm: Farm, tenant_id: str) -> None:
    upload_id = waiting(farm, tenant_id, dict(FILES))
    with pytest.raises(Unavailable):
        verify_due(farm, Unstartable())
    assert row(farm, upload_id).unread_since is not None
    verify_due(farm, Reader())

    assert outcome(farm, upload_id) == (UploadState.DONE, None)
