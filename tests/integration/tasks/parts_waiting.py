"""Uploads in parts as they wait to be verified, made through the steps themselves."""

from __future__ import annotations

from datetime import timedelta

import httpx

from enginefarm.digest import digest_of
from enginefarm.upload import AskedPart, DeclaredFile, UploadSpec
from storage import catalogue
from storage.database import now
from storage.models import Upload
from tasks import model_uploads
from tasks.farm import Farm
from tasks.part_plan import UploadLimits
from tests.integration.api.made import with_external

LIMITS = UploadLimits(part_bytes=5 << 20)


FILES = {"m.onnx": with_external("w.bin"), "w.bin": b"0123456789abcdef"}


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
