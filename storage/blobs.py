"""Which tenant may read which bytes."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from storage.database import Session
from storage.models import Blob


def record(session: Session, tenant_id: str, digest: str, size: int, media_type: str) -> None:
    """Note that a tenant owns these bytes, which are in the bucket; a repeat changes nothing."""
    row = insert(Blob).values(tenant_id=tenant_id, digest=digest, size=size, media_type=media_type)
    session.execute(
        row.on_conflict_do_update(
            index_elements=[Blob.tenant_id, Blob.digest],
            set_={"lost_at": None},
            where=Blob.lost_at.is_not(None),
        )
    )


def find(session: Session, tenant_id: str, digest: str) -> Blob | None:
    """Return the tenant's row for these bytes, if there is one."""
    return session.scalar(select(Blob).where(Blob.tenant_id == tenant_id, Blob.digest == digest))
