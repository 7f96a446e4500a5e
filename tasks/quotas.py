"""How much a tenant may have in the farm: unfinished jobs, searches, and bytes in the bucket.

How many jobs may run is no refusal: they wait their turn, see ``tasks.schedule``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from enginefarm.errors import QuotaExceeded
from storage import blobs, searches, tenants, uploads
from storage.database import Session
from storage.models import Job

MAX_UNFINISHED_UPLOADS = 100
MAX_RUNNING_SEARCHES = 100


def require_room_for_jobs(session: Session, tenant_id: str, made: Sequence[Job]) -> None:
    """Refuse a build whose jobs would be more than the tenant may have unfinished.

    What the cache answers costs nothing and is never refused. The caller holds the tenant's lock.

    Raises:
        QuotaExceeded: code ``quota_jobs``.
    """
    new = sum(not job.state.terminal for job in made)
    most = tenants.get(session, tenant_id).max_unfinished if new else None
    if most is None:
        return
    there = tenants.unfinished(session, tenant_id)
    if there + new > most:
        raise QuotaExceeded(
            f"Your tenant would have {there + new} unfinished jobs; it may have {most}.",
            code="quota_jobs",
            why=f"{there} are unfinished now, and this build adds {new}.",
            fix="Wait until some have finished or cancel a build; the operator sets the limit.",
            limit=most,
            unfinished=there,
        )


def require_few_uploads(session: Session, tenant_id: str) -> None:
    """Refuse another upload in parts where many have not ended.

    Raises:
        QuotaExceeded: code ``quota_uploads``.
    """
    there, _ = uploads.declared(session, tenant_id)
    if there >= MAX_UNFINISHED_UPLOADS:
        raise QuotaExceeded(
            f"Your tenant has {there} uploads that have not ended.",
            code="quota_uploads",
            why=f"It may have {MAX_UNFINISHED_UPLOADS} at the same time.",
            fix="Complete them, or remove those that nobody goes on with: DELETE /v1/uploads/{id}.",
            limit=MAX_UNFINISHED_UPLOADS,
        )


def require_few_searches(session: Session, tenant_id: str) -> None:
    """Refuse another search where many are not over: each of them is looked at every second.

    Raises:
        QuotaExceeded: code ``quota_searches``.
    """
    there = searches.count_running(session, tenant_id)
    if there >= MAX_RUNNING_SEARCHES:
        raise QuotaExceeded(
            f"Your tenant has {there} searches that are not over.",
            code="quota_searches",
            why=f"It may have {MAX_RUNNING_SEARCHES} at the same time.",
            fix="Wait until some are over, or cancel one: POST /v1/searches/{id}/cancel.",
            limit=MAX_RUNNING_SEARCHES,
        )


def require_room_for_blobs(
    session: Session, tenant_id: str, sent: Iterable[tuple[str, int]]
) -> None:
    """Refuse an upload that would be more than the tenant may keep.

    ``sent`` are digests and sizes; what the tenant keeps already costs nothing. What its unfinished
    uploads have declared counts as kept.

    Raises:
        QuotaExceeded: code ``quota_bytes``.
    """
    size = _new_bytes(session, tenant_id, set(sent))
    if size:
        _require_room(session, tenant_id, size)


def require_room_for_upload(
    session: Session, tenant_id: str, to_send: Sequence[tuple[str, int]]
) -> None:
    """Refuse a declaration of files that are yet to be sent, digests and sizes, as above.

    Each of them takes room until the upload ends, also bytes declared twice. Bytes that the
    tenant keeps and the bucket has lost cost nothing, but not again and again.

    Raises:
        QuotaExceeded: code ``quota_bytes``.
    """
    if to_send:
        once = set(to_send)
        twice = sum(size for _, size in to_send) - sum(size for _, size in once)
        _require_room(session, tenant_id, twice + _new_bytes(session, tenant_id, once))


def _new_bytes(session: Session, tenant_id: str, sent: Iterable[tuple[str, int]]) -> int:
    """Add up what the tenant does not keep; a digest with another size is something else."""
    rows = {pair: blobs.find(session, tenant_id, pair[0]) for pair in sent}
    return sum(size for (_, size), row in rows.items() if row is None or row.size != size)


def _require_room(session: Session, tenant_id: str, size: int) -> None:
    most = tenants.get(session, tenant_id).max_bytes
    if most is None:
        return
    _, declared = uploads.declared(session, tenant_id)
    there = tenants.bytes_kept(session, tenant_id) + declared
    if there + size > most:
        raise QuotaExceeded(
            f"Your tenant would keep {there + size} bytes; it may keep {most}.",
            code="quota_bytes",
            why=f"It keeps {there} bytes now, unfinished uploads among them, and this one adds "
            f"{size}.",
            fix="Remove models or datasets that are no longer needed; the operator sets the limit.",
            limit=most,
            kept=there,
        )
