"""Prove that what a job made is in the bucket, as it was hashed."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from enginefarm.digest import digest_of_chunks
from enginefarm.errors import JobFailed
from tasks.farm import Farm

_SPOILT = frozenset({"blob_size", "blob_corrupt"})
NOT_AS_MADE = frozenset({"blob_missing", *_SPOILT})
_log = structlog.get_logger()


def prove_blobs(farm: Farm, files: Iterable[tuple[str, int]]) -> None:
    """Make sure that each blob, by digest and size, is there, whole and unharmed.

    Bytes that do not have the digest they are kept under are of use to nobody, and while they lie
    there the right ones cannot be stored: they are removed. Right bytes whose size was announced
    wrongly stay: others may have published them.

    Raises:
        JobFailed: one of them is not (codes in ``NOT_AS_MADE``).
        Unavailable: the bucket is away.
    """
    for digest, size in files:
        try:
            farm.objects.confirm(digest, size)
        except JobFailed as error:
            if error.code in _SPOILT and not _is_right(farm, digest):
                _log.error("blob_spoilt", digest=digest, code=error.code, why=error.message)
                farm.objects.remove(digest)
            raise


def _is_right(farm: Farm, digest: str) -> bool:
    return digest_of_chunks(farm.objects.stream(digest)) == digest
