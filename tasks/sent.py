"""What an attempt names counts only if its node had the bytes, or its tenant has them already.

A digest proves nothing: whoever has seen it once can name it. So an attempt sends what it made to
places of its own, whether or not the same bytes are here, and they are read there before they count
as the tenant's. What need not be sent is what the tenant itself had when a place was asked for.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress

from enginefarm.errors import Conflict, JobFailed, Unavailable
from enginefarm.manifest import LOG_TYPE
from storage import attempts, unfit
from storage.models import Attempt
from storage.parts import Whole
from storage.staging import staged_at
from tasks import lease
from tasks.farm import Farm
from tasks.fault_points import reach
from tasks.messages import FinishRequest, OutputFile
from tasks.proof import prove_blobs

MOST_LOG_BYTES = 64 << 20
"""A log above it is not kept."""
_AT_ONCE = 8 << 20


def prove(farm: Farm, attempt: Attempt, files: list[tuple[str, int, str]]) -> None:
    """Make sure of each file, by digest, size and type, that the attempt may name it, and keep it.

    Raises:
        JobFailed: it was not sent, or is not what was announced (codes of ``prove_blobs``).
        Unavailable: the bucket is away.
    """
    for digest, size, media_type in files:
        if digest in attempt.held:
            prove_blobs(farm, [(digest, size)])
        else:
            place = staged_at(attempt.job_id, attempt.number, digest)
            _take_in(farm, place, digest, size, media_type)


def _take_in(farm: Farm, place: str, digest: str, size: int, media_type: str) -> None:
    """Read what lies at a place and keep it under its digest."""
    whole = farm.objects.staging.find(place)
    if whole is None:
        raise unfit.missing(digest)
    if whole.size != size:
        raise unfit.size(digest, whole.size, size)
    try:
        data = _read(farm, whole, digest)
        reach("sent.read")
        _keep(farm, whole, data, digest, media_type)
    except Conflict as error:
        # It was read, or cleared away, by another who settles the same attempt.
        raise unfit.missing(digest) from error


def _read(farm: Farm, whole: Whole, digest: str) -> bytes | None:
    """Hash what was sent; return it if it is small."""
    hasher, pieces = hashlib.sha256(), []
    for chunk in farm.objects.parts.stream(whole):
        hasher.update(chunk)
        if whole.size <= _AT_ONCE:
            pieces.append(chunk)
    if f"sha256:{hasher.hexdigest()}" != digest:
        raise unfit.corrupt(digest)
    return b"".join(pieces) if whole.size <= _AT_ONCE else None


def _keep(farm: Farm, whole: Whole, data: bytes | None, digest: str, media_type: str) -> None:
    try:
        prove_blobs(farm, [(digest, whole.size)])
    except JobFailed:
        # It is not here yet, or was spoilt and is removed now.
        if data is None:
            farm.objects.parts.promote(whole, digest, media_type)
        else:
            farm.objects.put_bytes(digest, data, media_type)


def log_of(farm: Farm, node_id: str, job_id: str, message: FinishRequest) -> OutputFile | None:
    """Return the log that an attempt ends with, kept, if it is its own.

    An attempt may end without, so that none is lost over its log.

    Raises:
        Unavailable: the bucket is away.
    """
    log = message.log
    if log is None or log.size > MOST_LOG_BYTES:
        return None
    with farm.database.transaction() as session:
        attempt = attempts.find(session, job_id, message.attempt)
    if (
        attempt is None
        or attempt.finished_at is not None
        or not lease.speaks_for(attempt, node_id, message.lease_token)
        or log.digest not in attempt.places
    ):
        return None
    try:
        prove(farm, attempt, [(log.digest, log.size, LOG_TYPE)])
    except JobFailed:
        return None
    return log


def clear(farm: Farm, attempt: Attempt) -> None:
    """Remove what an attempt that has ended has sent; what is left over the sweep removes."""
    with suppress(Unavailable):
        for digest in attempt.places:
            if digest not in attempt.held:
                farm.objects.staging.remove(staged_at(attempt.job_id, attempt.number, digest))
