"""What a tenant may have, and has."""

from __future__ import annotations

from sqlalchemy import func, select

from enginefarm.errors import NotFound
from storage import jobs
from storage.database import Session
from storage.models import Blob, Job, Tenant


def get(session: Session, tenant_id: str) -> Tenant:
    """Return a tenant by its id."""
    return session.get_one(Tenant, tenant_id)


def named(session: Session, name: str) -> Tenant:
    """Return a tenant by its name.

    Raises:
        NotFound: there is none (code ``unknown_tenant``).
    """
    row = session.scalar(select(Tenant).where(Tenant.name == name))
    if row is None:
        raise NotFound(
            f"There is no tenant {name[:80]!r}.",
            code="unknown_tenant",
            fix="A tenant is made with its first key: python -m storage create-key.",
        )
    return row


def unfinished(session: Session, tenant_id: str) -> int:
    """Count a tenant's jobs that have not ended."""
    count = session.scalar(
        select(func.count())
        .select_from(Job)
        .where(Job.tenant_id == tenant_id, Job.state.in_(jobs.LIVE))
    )
    return count or 0


def bytes_kept(session: Session, tenant_id: str) -> int:
    """Add up the blobs that a tenant may read."""
    total = session.scalar(select(func.sum(Blob.size)).where(Blob.tenant_id == tenant_id))
    return int(total or 0)
