"""The rows of uploads in parts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from enginefarm.errors import Conflict, NotFound
from enginefarm.state import UploadState
from storage.database import Session, now
from storage.ids import new_id
from storage.models import Upload, UploadPart

_UNFINISHED = (UploadState.OPEN, UploadState.VERIFYING)
_ENDED = tuple(state for state in UploadState if state.terminal)


def add(session: Session, tenant_id: str, name: str, files: list[Any]) -> Upload:
    """Keep a declaration; ``files`` say which of them are present."""
    row = Upload(
        id=new_id("upl"),
        tenant_id=tenant_id,
        name=name,
        state=UploadState.OPEN,
        files=files,
        transfers={},
        size=sum(file["size"] for file in files if not file["present"]),
        verified_bytes=0,
        attempts=0,
        cleared=False,
        created_at=now(),
        touched_at=now(),
    )
    session.add(row)
    session.flush()
    return row


def get(session: Session, tenant_id: str, upload_id: str, *, lock: bool = False) -> Upload:
    """Return a tenant's upload, on request locked until the transaction ends.

    Raises:
        NotFound: this tenant has no such upload (code ``unknown_upload``).
    """
    found = select(Upload).where(Upload.id == upload_id, Upload.tenant_id == tenant_id)
    row = session.scalar(found.with_for_update() if lock else found)
    if row is None:
        raise NotFound(
            f"There is no upload {upload_id!r}.",
            code="unknown_upload",
            why="It was never declared here, belongs to another tenant, or ended long ago.",
            fix="Declare it again with POST /v1/uploads; what is here already is not sent again.",
        )
    return row


def declared(session: Session, tenant_id: str) -> tuple[int, int]:
    """Return how many uploads of a tenant have not ended, and the bytes that they declare."""
    count, size = session.execute(
        select(func.count(), func.coalesce(func.sum(Upload.size), 0)).where(
            Upload.tenant_id == tenant_id, Upload.state.in_(_UNFINISHED)
        )
    ).one()
    return int(count), int(size)


def announce(session: Session, upload_id: str, parts: Mapping[tuple[int, int], str]) -> None:
    """Note the digests of parts by file and number.

    Raises:
        Conflict: one was announced with another digest before (code ``part_differs``).
    """
    rows = [
        {"upload_id": upload_id, "file": file, "number": number, "digest": digest}
        for (file, number), digest in parts.items()
    ]
    session.execute(insert(UploadPart).values(rows).on_conflict_do_nothing())
    for file in {file for file, _ in parts}:
        known = digests(session, upload_id, file)
        for (other, number), digest in parts.items():
            if other == file and known[number] != digest:
                raise _differs(file, number)


def digests(session: Session, upload_id: str, file: int) -> dict[int, str]:
    """Return the announced digests of a file's parts, by number."""
    found = session.execute(
        select(UploadPart.number, UploadPart.digest).where(
            UploadPart.upload_id == upload_id, UploadPart.file == file
        )
    )
    return {number: digest for number, digest in found}  # noqa: C416 - rows, not pairs


def claim(session: Session, seconds: float) -> Upload | None:
    """Take an upload that waits to be verified, or whose verifier has fallen silent."""
    row = session.scalar(
        select(Upload)
        .where(
            Upload.state == UploadState.VERIFYING,
            (Upload.leased_until.is_(None)) | (Upload.leased_until < now()),
        )
        .order_by(Upload.touched_at)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    if row is not None:
        row.attempts += 1
        row.leased_until = now() + timedelta(seconds=seconds)
    return row


def hold(session: Session, upload_id: str, attempt: int, **changes: object) -> bool:
    """Change an upload that is being verified; tell whether it still is, by this attempt."""
    held = session.execute(
        update(Upload)
        .where(
            Upload.id == upload_id,
            Upload.state == UploadState.VERIFYING,
            Upload.attempts == attempt,
        )
        .values(touched_at=now(), **changes)
        .returning(Upload.id)
    )
    return held.scalar() is not None


def give_up(session: Session, before: datetime) -> int:
    """End the open uploads of which nothing was heard since a moment; return how many."""
    ended = session.execute(
        update(Upload)
        .where(Upload.state == UploadState.OPEN, Upload.touched_at < before)
        .values(state=UploadState.ABANDONED)
        .returning(Upload.id)
    )
    return len(ended.all())


def to_clear(session: Session, limit: int = 20) -> list[str]:
    """Return uploads that have ended and of which the bucket still holds something."""
    rows = session.scalars(
        select(Upload.id)
        .where(Upload.state.in_(_ENDED), Upload.cleared.is_(False))
        .order_by(Upload.touched_at)
        .limit(limit)
    )
    return list(rows)


def cleared(session: Session, upload_id: str) -> None:
    """Note that the bucket holds nothing of an upload any more."""
    session.execute(update(Upload).where(Upload.id == upload_id).values(cleared=True))


def forget(session: Session, before: datetime) -> None:
    """Remove the rows of uploads that ended, were cleared and are old."""
    session.execute(
        delete(Upload).where(
            Upload.state.in_(_ENDED), Upload.cleared.is_(True), Upload.touched_at < before
        )
    )


def _differs(file: int, number: int) -> Conflict:
    return Conflict(
        f"Part {number} of file {file} was announced with another digest before.",
        code="part_differs",
        why="The digest of the whole file was declared, so its parts cannot change.",
        fix="If the file has changed, remove this upload and declare the file as it is now.",
    )
