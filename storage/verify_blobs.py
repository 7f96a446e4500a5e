"""Look at every blob that rows name: whether the bucket has it, as long as it was, unharmed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from sqlalchemy import func, select

from enginefarm.digest import digest_of_chunks
from enginefarm.errors import JobFailed
from storage import lost
from storage.database import Database, Session
from storage.models import Blob
from storage.objects import Objects

_BATCH, _THREADS = 200, 8


@dataclass(frozen=True)
class Looked:
    """A blob that was looked at. ``trouble``: what is wrong with it, if anything.

    ``was_lost``: until now it was known to be lost.
    """

    digest: str
    size: int
    was_lost: bool
    trouble: str | None = None


def count(session: Session, after: str) -> int:
    """Count the digests that follow ``after``."""
    return (
        session.scalar(select(func.count(Blob.digest.distinct())).where(Blob.digest > after)) or 0
    )


def look(
    database: Database, objects: Objects, *, after: str, limit: int | None, deep: bool
) -> Iterator[Looked]:
    """Look at blobs in the order of their digests, and write down what is lost or there again.

    ``after`` is where an earlier look has stopped, ``limit`` how many to look at, ``deep`` whether
    the bytes are read and hashed instead of believing what the store says of them.

    Raises:
        Unavailable: database or bucket is away; what was said before holds.
    """
    left = limit
    with ThreadPoolExecutor(_THREADS) as pool:
        while left is None or left > 0:
            with database.transaction() as session:
                page = _page(session, after, min(_BATCH, left or _BATCH))
            if not page:
                return
            for blob in pool.map(partial(_judge, objects, deep=deep), page):
                if blob.was_lost is (blob.trouble is None):
                    with database.transaction() as session:
                        _note(session, blob)
                yield blob
            after = page[-1].digest
            left = None if left is None else left - len(page)


def _page(session: Session, after: str, limit: int) -> Sequence[Looked]:
    """Return the next digests. Tenants may share bytes: that is one blob to look at."""
    query = (
        select(Blob.digest, func.max(Blob.size), func.bool_or(Blob.lost_at.is_not(None)))
        .where(Blob.digest > after)
        .group_by(Blob.digest)
        .order_by(Blob.digest)
        .limit(limit)
    )
    return [Looked(*row) for row in session.execute(query)]


def _judge(objects: Objects, blob: Looked, *, deep: bool) -> Looked:
    return Looked(blob.digest, blob.size, blob.was_lost, _trouble(objects, blob, deep=deep))


def _trouble(objects: Objects, blob: Looked, *, deep: bool) -> str | None:
    info = objects.head(blob.digest)
    if info is None:
        return "missing"
    if info.size != blob.size:
        return f"{info.size} bytes instead of {blob.size}"
    if info.checksum_ok is False:
        return "the store's checksum is another"
    if not deep:
        return None
    try:
        same = digest_of_chunks(objects.stream(blob.digest)) == blob.digest
    except JobFailed:
        return "missing"
    return None if same else "the bytes have another digest"


def _note(session: Session, blob: Looked) -> None:
    if blob.trouble is None:
        lost.found(session, blob.digest)
    else:
        lost.note(session, blob.digest)
