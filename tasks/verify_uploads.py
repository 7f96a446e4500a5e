"""Verify what came in parts: read again, hashed, the model scanned, and only then a model.

The bytes are never taken at their sender's word. They are copied to where blobs lie only when
their sha256 is the declared one, so nobody ever finds others there. Every step may be repeated: who
dies in it is followed when the lease has ended, and whoever was thought dead can end nothing.
"""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

import structlog

from enginefarm.errors import Failure, FarmError, Unavailable
from enginefarm.external_data import check_external
from enginefarm.state import UploadState
from intake.findings import ModelFound
from intake.reader import Reader
from storage import blobs, builds, catalogue, garbage, unfit, uploads
from storage.database import now
from storage.models import Upload
from storage.parts import Whole
from tasks.farm import Farm
from tasks.fault_points import reach
from tasks.model_files import (
    MODEL_FILE,
    digest_of_model,
    interface,
    listing,
    main_of,
    require_referenced,
)
from tasks.model_uploads import MEDIA_TYPE
from tasks.part_plan import place
from tasks.upload_failures import (
    MOST_ATTEMPTS,
    UNREAD,
    is_bucket_away,
    mismatch,
    unexpected,
    unread,
    used_up,
)

_BEAT_S = 2.0
_AWAY = "bucket_away"
_log = structlog.get_logger()


class _NotOursError(Exception):
    """The upload was removed, or another has taken it up."""


@dataclass
class _Work:
    """One upload being verified: how much of it is read, and whether the lease is still held."""

    farm: Farm
    row: Upload
    attempt: int
    done: int = 0
    lost: bool = False
    wholes: dict[int, Whole] = field(default_factory=dict)

    def advance(self, count: int) -> None:
        """Count bytes that were read.

        Raises:
            _NotOursError: the upload is no longer ours to end.
        """
        self.done += count
        if self.lost:
            raise _NotOursError

    def hold(self, **changes: object) -> None:
        """Say how far it is, and hold the lease.

        Raises:
            _NotOursError: the upload is no longer ours to end.
        """
        told = {"verified_bytes": self.done} | changes
        with self.farm.database.transaction() as session:
            held = uploads.hold(session, self.row.id, self.attempt, **told)
        if not held:
            self.lost = True
            raise _NotOursError

    def beat(self, stop: threading.Event, alive: Callable[[], None]) -> None:
        """Hold the lease until ``stop``, whatever takes how long."""
        lease_s = self.farm.policy.verify_lease_s
        while not self.lost and not stop.wait(min(_BEAT_S, lease_s / 3)):
            alive()
            # A database that is away for a moment has not given the lease to anybody else.
            with suppress(_NotOursError, Unavailable):
                self.hold(leased_until=now() + timedelta(seconds=lease_s))


def verify_due(
    farm: Farm,
    reader: Reader,
    spool: Path | None = None,
    alive: Callable[[], None] = lambda: None,
) -> int:
    """Verify one upload that waits for it; return how many there were.

    ``alive`` is called while it works.

    Raises:
        Unavailable: a part of the farm is away; the upload waits.
    """
    with farm.database.transaction() as session:
        row = uploads.claim(session, farm.policy.verify_lease_s)
        attempt = row.attempts if row is not None else 0
    if row is None:
        return 0
    reach("verify.claimed")
    work, stop = _Work(farm, row, attempt), threading.Event()
    beating = threading.Thread(target=work.beat, args=(stop, alive))
    beating.start()
    try:
        with structlog.contextvars.bound_contextvars(upload=row.id):
            if attempt > MOST_ATTEMPTS:
                # Whoever began it died, each time: it is not touched again.
                _fail(work, used_up())
            else:
                _verify(work, reader, spool)
    finally:
        stop.set()
        beating.join()
    return 1


def _verify(work: _Work, reader: Reader, spool: Path | None) -> None:
    try:
        _take_in(work, reader, spool)
    except _NotOursError:
        _log.info("upload_not_ours")
    except Unavailable as error:
        if error.code == UNREAD and _is_unread_for_long(work):
            _log.error("upload_unread", seconds=work.farm.policy.reader_patience_s, why=error.why)
            _fail(work, unread(work.farm.policy.reader_patience_s, error))
            return
        if error.code != _AWAY or is_bucket_away(work.farm):
            # Nobody needs to wait for the lease: the next turn may find the farm whole again. It
            # is not the upload's fault, so the attempt does not count.
            _end(work, leased_until=None, attempts=work.attempt - 1)
            work.lost = True
        raise
    except FarmError as error:
        _fail(work, error.as_failure())
    except Exception as error:
        if work.attempt >= MOST_ATTEMPTS:
            _fail(work, unexpected(error))
        raise


def _is_unread_for_long(work: _Work) -> bool:
    """Note since when no reader can be started for an upload; tell whether that is too long."""
    since = work.row.unread_since
    if since is None:
        since = now()
        with suppress(_NotOursError):
            work.hold(unread_since=since)
    return now() - since >= timedelta(seconds=work.farm.policy.reader_patience_s)


def _take_in(work: _Work, reader: Reader, spool: Path | None) -> None:
    """Read the model file first: what is wrong with it is said before gigabytes are read."""
    files = work.row.files
    main = main_of([file["name"] for file in files])
    sizes = {file["name"]: int(file["size"]) for at, file in enumerate(files) if at != main}
    with tempfile.NamedTemporaryFile(prefix="upload-", dir=spool) as copy:
        _hashed(work, main, copy)
        found = reader.model(Path(copy.name))
    check_external(found, sizes)
    require_referenced(found, list(sizes))
    for at in range(len(files)):
        if at != main:
            _hashed(work, at, None)
    work.hold()
    with work.farm.database.transaction() as session:
        garbage.keep(session, [file["digest"] for file in files])
    _require_present(work)
    for at, whole in work.wholes.items():
        work.farm.objects.parts.promote(whole, files[at]["digest"], MEDIA_TYPE)
    reach("verify.copied")
    _keep(work, main, found)


def _require_present(work: _Work) -> None:
    """See that what need not be sent is still there: since then a rule may have removed it."""
    for file in work.row.files:
        info = work.farm.objects.head(file["digest"]) if file["present"] else None
        if file["present"] and (info is None or info.size != file["size"]):
            raise unfit.lost(file["digest"])


def _hashed(work: _Work, at: int, copy: IO[bytes] | None) -> None:
    """Read a file to its end, on request into ``copy``; what the tenant has was read before."""
    file = work.row.files[at]
    if file["present"]:
        if copy is not None:
            _pour(work.farm.objects.stream(file["digest"]), copy, None)
        return
    whole = _joined(work, at)
    hasher = hashlib.sha256()

    def told(chunk: bytes) -> None:
        hasher.update(chunk)
        work.advance(len(chunk))

    _pour(work.farm.objects.parts.stream(whole), copy, told)
    actual = f"sha256:{hasher.hexdigest()}"
    if actual != file["digest"]:
        raise mismatch(file, actual)
    work.wholes[at] = whole


def _joined(work: _Work, at: int) -> Whole:
    file = work.row.files[at]
    with work.farm.database.transaction() as session:
        digests = uploads.digests(session, work.row.id, at)
    transfer = work.row.transfers[str(at)]
    whole = work.farm.objects.parts.join(place(work.row.id, at), transfer, digests)
    reach("verify.joined")
    if whole.size != file["size"]:
        raise mismatch(file, f"{whole.size} bytes")
    return whole


def _pour(
    chunks: Iterator[bytes], copy: IO[bytes] | None, told: Callable[[bytes], None] | None
) -> None:
    for chunk in chunks:
        if copy is not None:
            copy.write(chunk)
        if told is not None:
            told(chunk)
    if copy is not None:
        copy.flush()


def _keep(work: _Work, main: int, found: ModelFound) -> None:
    """Write the model, its blobs and the upload's end in one transaction."""
    files = [
        (MODEL_FILE if at == main else file["name"], file["digest"], int(file["size"]))
        for at, file in enumerate(work.row.files)
    ]
    listed = listing(files)
    tenant_id, digest = work.row.tenant_id, digest_of_model(listed)
    with work.farm.database.transaction() as session:
        # What retention removes cannot come between.
        builds.lock_tenant(session, tenant_id)
        ended: dict[str, Any] = {"state": UploadState.DONE, "model": digest}
        if not uploads.hold(session, work.row.id, work.attempt, verified_bytes=work.done, **ended):
            raise _NotOursError
        for _, each, size in files:
            blobs.record(session, tenant_id, each, size, MEDIA_TYPE)
        catalogue.add_model(
            session,
            tenant_id,
            digest=digest,
            name=work.row.name,
            size=sum(size for _, _, size in files),
            files=listed,
            interface=interface(found),
        )
        session.flush()
        reach("verify.written")
    reach("verify.committed")
    _log.info("upload_taken_in", model=digest, size=work.row.size)


def _fail(work: _Work, failure: Failure) -> None:
    _log.info("upload_refused", code=failure.code)
    _end(work, state=UploadState.FAILED, failure=failure.model_dump(mode="json"))


def _end(work: _Work, **changes: object) -> None:
    with work.farm.database.transaction() as session:
        uploads.hold(session, work.row.id, work.attempt, **changes)
