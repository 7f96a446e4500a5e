"""Models that come in parts: declared, sent straight to the bucket, completed or given up.

What is here is asked of the bucket each time, so an upload goes on after a crash of either side,
and from another machine. A tenant is told only of bytes that are its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import JsonValue

from enginefarm.state import UploadState
from enginefarm.upload import AskedPart, PartSlot, UploadSpec
from storage import blobs, builds, uploads
from storage.database import now
from storage.models import Upload
from tasks import quotas
from tasks.farm import Farm
from tasks.fault_points import reach
from tasks.names import require_plain
from tasks.part_plan import UploadLimits, folder, part_count, part_size, place, require_fit
from tasks.upload_refusals import (
    by_part,
    incomplete,
    require_one_size,
    require_open,
    require_part,
    wrong_size,
)

MEDIA_TYPE = "application/octet-stream"
_LISTED_AT_ONCE = 8


def declare(
    farm: Farm, tenant_id: str, spec: UploadSpec, name: str, limits: UploadLimits
) -> Upload:
    """Keep a declaration, and find out which of its bytes the tenant has already.

    Raises:
        InvalidRequest: ``one_model_file``, ``bad_file_name``, ``size_differs``.
        InvalidModel: ``model_file_too_large``.
        TooLarge: it is above the operator's limit.
        QuotaExceeded: ``quota_bytes``, ``quota_uploads``.
    """
    for file in spec.files:
        require_plain(file.name, "a file name")
    require_plain(name, "a model's name")
    require_fit(spec, limits)
    with farm.database.transaction() as session:
        rows = {file.digest: blobs.find(session, tenant_id, file.digest) for file in spec.files}
    known = {digest: row.size for digest, row in rows.items() if row is not None}
    require_one_size(spec, known)
    there = _in_bucket(farm, known)
    files = [
        file.model_dump(mode="json")
        | {"present": file.digest in there, "part_bytes": limits.part_of(file.size)}
        for file in spec.files
    ]
    with farm.database.transaction() as session:
        builds.lock_tenant(session, tenant_id)
        quotas.require_few_uploads(session, tenant_id)
        to_send = [(file.digest, file.size) for file in spec.files if file.digest not in there]
        quotas.require_room_for_upload(session, tenant_id, to_send)
        row = uploads.add(session, tenant_id, name, files)
    reach("upload.declared")
    return row


def _in_bucket(farm: Farm, known: dict[str, int]) -> set[str]:
    """Return the bytes that are really there: what was lost must be sent again."""
    found = {digest: farm.objects.head(digest) for digest in known}
    return {
        digest for digest, info in found.items() if info is not None and info.size == known[digest]
    }


def slots(
    farm: Farm, tenant_id: str, upload_id: str, asked: Sequence[AskedPart], limits: UploadLimits
) -> list[PartSlot]:
    """Return where parts go; from now on each of them has the digest that was named.

    Raises:
        NotFound: ``unknown_upload``.
        Conflict: ``upload_not_open``, ``part_differs``.
        InvalidRequest: ``no_such_part``.
    """
    row = _announced(farm, tenant_id, upload_id, asked)
    transfers = _begun(farm, row, {part.file for part in asked})
    if not limits.direct:
        return [PartSlot(file=part.file, number=part.number, url=None) for part in asked]
    made = []
    for part in asked:
        url, headers = farm.objects.parts.presign(
            place(row.id, part.file),
            transfers[part.file],
            part.number,
            part.digest,
            part_size(row.files[part.file], part.number),
            seconds=limits.url_seconds,
        )
        made.append(PartSlot(file=part.file, number=part.number, url=url, headers=headers))
    return made


def put(farm: Farm, tenant_id: str, upload_id: str, part: AskedPart, path: Path) -> None:
    """Keep a part that came through the farm.

    Raises:
        NotFound: ``unknown_upload``.
        Conflict: ``upload_not_open``, ``part_differs``, ``upload_lost``.
        InvalidRequest: ``no_such_part``, ``part_size``.
    """
    row = _announced(farm, tenant_id, upload_id, [part], size=path.stat().st_size)
    transfer = _begun(farm, row, {part.file})[part.file]
    farm.objects.parts.put(place(row.id, part.file), transfer, part.number, part.digest, path)
    reach("upload.stored")


def _announced(
    farm: Farm,
    tenant_id: str,
    upload_id: str,
    asked: Sequence[AskedPart],
    *,
    size: int | None = None,
) -> Upload:
    with farm.database.transaction() as session:
        row = uploads.get(session, tenant_id, upload_id, lock=True)
        require_open(row)
        for part in asked:
            require_part(row, part)
            if size is not None and size != part_size(row.files[part.file], part.number):
                raise wrong_size(row, part, size)
        uploads.announce(session, row.id, by_part(asked))
        row.touched_at = now()
        return row


def _begun(farm: Farm, row: Upload, files: set[int]) -> dict[int, str]:
    """Return the transfers of files, begun where they have none or the bucket has dropped it."""
    known = row.transfers
    new = {
        str(file): farm.objects.parts.begin(place(row.id, file), MEDIA_TYPE)
        for file in files
        if not _takes_parts(farm, row, file)
    }
    if new:
        reach("upload.begun")
        with farm.database.transaction() as session:
            row = uploads.get(session, row.tenant_id, row.id, lock=True)
            # Somebody may have been faster; what was begun in vain goes when all of it does.
            row.transfers = row.transfers | {
                file: transfer
                for file, transfer in new.items()
                if row.transfers.get(file) == known.get(file)
            }
        if row.state.terminal:
            farm.objects.parts.clear(folder(row.id))
        # What is being verified was joined meanwhile, and stays.
        require_open(row)
    return {file: row.transfers[str(file)] for file in files}


def _takes_parts(farm: Farm, row: Upload, file: int) -> bool:
    transfer = row.transfers.get(str(file))
    return transfer is not None and farm.objects.parts.is_begun(place(row.id, file), transfer)


def received(farm: Farm, row: Upload) -> dict[int, list[int]]:
    """Return the parts that are here, by file and number."""
    wanted = {at: file for at, file in enumerate(row.files) if not file["present"]}
    if row.state in {UploadState.VERIFYING, UploadState.DONE}:
        return {at: list(range(1, part_count(file) + 1)) for at, file in wanted.items()}
    begun = [at for at in wanted if str(at) in row.transfers and not row.state.terminal]

    def here(at: int) -> list[int]:
        listed = farm.objects.parts.listing(place(row.id, at), row.transfers[str(at)])
        file = wanted[at]
        return [
            number
            for number, part in listed.items()
            if number <= part_count(file) and part.size == part_size(file, number)
        ]

    with ThreadPoolExecutor(_LISTED_AT_ONCE) as pool:
        return dict(zip(begun, pool.map(here, begun), strict=True))


def complete(farm: Farm, tenant_id: str, upload_id: str) -> Upload:
    """Let the farm verify an upload of which everything is here; a repeat changes nothing.

    Raises:
        NotFound: ``unknown_upload``.
        Conflict: ``upload_incomplete``, ``upload_not_open``.
    """
    with farm.database.transaction() as session:
        row = uploads.get(session, tenant_id, upload_id)
    if row.state in {UploadState.VERIFYING, UploadState.DONE, UploadState.FAILED}:
        return row
    require_open(row)
    here = received(farm, row)
    missing: dict[str, JsonValue] = {
        file["name"]: part_count(file) - len(here.get(at, []))
        for at, file in enumerate(row.files)
        if not file["present"] and len(here.get(at, [])) < part_count(file)
    }
    if missing:
        raise incomplete(missing)
    with farm.database.transaction() as session:
        row = uploads.get(session, tenant_id, upload_id, lock=True)
        if row.state is UploadState.OPEN:
            row.state = UploadState.VERIFYING
            row.touched_at = now()
    reach("upload.completed")
    return row


def cancel(farm: Farm, tenant_id: str, upload_id: str) -> Upload:
    """End an upload; what came of it is removed from the bucket within moments.

    Raises:
        NotFound: ``unknown_upload``.
    """
    with farm.database.transaction() as session:
        row = uploads.get(session, tenant_id, upload_id, lock=True)
        if not row.state.terminal:
            row.state = UploadState.CANCELLED
            row.touched_at = now()
    reach("upload.cancelled")
    return row
