"""Why parts of an upload are not taken: each refusal says what, why and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from enginefarm.counted import counted
from enginefarm.errors import Conflict, InvalidRequest
from enginefarm.state import UploadState
from enginefarm.upload import AskedPart, UploadSpec
from storage.models import Upload
from tasks.part_plan import part_count, part_size


def require_one_size(spec: UploadSpec, known: Mapping[str, int]) -> None:
    """Refuse a digest with another size than the tenant's own bytes, or the same upload, give it.

    Raises:
        InvalidRequest: code ``size_differs``.
    """
    sizes = dict(known)
    for file in spec.files:
        size = sizes.setdefault(file.digest, file.size)
        if size != file.size:
            raise InvalidRequest(
                f"The file {file.name[:80]!r} is declared with {file.size} bytes, but the bytes of "
                f"its digest are {size}.",
                code="size_differs",
                why="Files with the same sha256 are the same bytes, so they have the same size.",
                fix="Take size and sha256 of the file again, both as it is now.",
                digest=file.digest,
                expected=size,
                actual=file.size,
            )


def by_part(asked: Iterable[AskedPart]) -> dict[tuple[int, int], str]:
    """Return the digests of parts by file and number.

    Raises:
        Conflict: one is named twice, with different digests (code ``part_differs``).
    """
    digests: dict[tuple[int, int], str] = {}
    for part in asked:
        if digests.setdefault((part.file, part.number), part.digest) != part.digest:
            raise Conflict(
                f"Part {part.number} of file {part.file} is named twice, with different digests.",
                code="part_differs",
                why="The digest of the whole file was declared, so its parts cannot change.",
                fix="Name each part once, by the digest of its bytes as they are now.",
            )
    return digests


def require_open(row: Upload) -> None:
    """Refuse what only an open upload can take."""
    if row.state is not UploadState.OPEN:
        raise Conflict(
            f"The upload is {row.state}.",
            code="upload_not_open",
            why="Only an open upload takes parts.",
            fix="Declare another one, POST /v1/uploads, to send the model again.",
            state=row.state,
        )


def require_part(row: Upload, part: AskedPart) -> None:
    """Refuse a part that the upload does not have, or that need not be sent."""
    known = part.file < len(row.files)
    if known and row.files[part.file]["present"]:
        why = "The tenant has the bytes of this file already."
    elif not known:
        why = f"The upload has {counted(len(row.files), 'file')}, counted from 0."
    elif part.number > part_count(row.files[part.file]):
        why = f"The file has {counted(part_count(row.files[part.file]), 'part')}, counted from 1."
    else:
        return
    raise InvalidRequest(
        f"There is no part {part.number} of file {part.file} to send.",
        code="no_such_part",
        why=why,
        fix="Take files and part numbers from GET /v1/uploads/{id}.",
    )


def wrong_size(row: Upload, part: AskedPart, size: int) -> InvalidRequest:
    """Return the refusal of a part that is too short or too long."""
    wanted = part_size(row.files[part.file], part.number)
    return InvalidRequest(
        f"Part {part.number} of file {part.file} has {size} bytes; {wanted} belong there.",
        code="part_size",
        why=f"Part n of the file begins at (n - 1) * {row.files[part.file]['part_bytes']}.",
        fix="Send exactly these bytes as the body.",
        expected=wanted,
        actual=size,
    )


def incomplete(missing: dict[str, JsonValue]) -> Conflict:
    """Return the refusal to complete what is not all here."""
    count = sum(number for number in missing.values() if isinstance(number, int))
    return Conflict(
        f"Of the upload, {counted(count, 'part is', 'parts are')} missing.",
        code="upload_incomplete",
        why=f"They belong to {', '.join(list(missing)[:5])}.",
        fix="Send the parts that GET /v1/uploads/{id} does not list, then complete it again.",
        missing=missing,
    )
