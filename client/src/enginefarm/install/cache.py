"""Blobs on this machine by digest: each is fetched once, by one process, and resumed if cut short.

A blob is shown under its digest only when its size and sha256 are right. What is already here is
hashed again before it is used: a file that was changed in place is fetched anew.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from enginefarm.digest import hex_of
from enginefarm.errors import Conflict, FarmError, Unavailable, VerificationFailed
from enginefarm.install.files import (
    READ_ONLY,
    alone,
    locked,
    require_file,
    require_size,
    shared,
    sync_folder,
)
from enginefarm.install.source import ArtifactSource, BlobPart
from enginefarm.manifest import Descriptor

RESERVE_BYTES = 64 << 20
"""What is left free on the disk."""
_TRIES, _TRIES_WHEN_SHORT = 6, 2
_FRESH_STARTS = 2
_IN_USE = "in-use.lock"
Told = Callable[[str, int, int], None]
"""Called with a file's name, how many of its bytes are here, and how many it has."""


@dataclass
class BlobCache:
    """A folder of blobs that several pulls share."""

    folder: Path
    sleep: Callable[[float], None] = field(default=time.sleep)

    def path(self, digest: str) -> Path:
        """Return where a blob is, or will be."""
        name = hex_of(digest)
        return self.folder / "sha256" / name[:2] / name

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Hold the cache while its files are used: nothing of it is removed meanwhile."""
        with shared(self.folder / _IN_USE):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the cache so that no pull uses it.

        Raises:
            Conflict: one does (code ``cache_in_use``).
        """
        try:
            with alone(self.folder / _IN_USE):
                yield
        except BlockingIOError as error:
            raise Conflict(
                f"The cache {self.folder} is in use.",
                code="cache_in_use",
                why="A pull is running, and may need any of its files.",
                fix="Repeat the command when the pull is over.",
            ) from error

    def fetch(self, source: ArtifactSource, wanted: Descriptor, told: Told | None = None) -> Path:
        """Return the path of a blob, fetched if it is not here.

        Raises:
            VerificationFailed: the bytes that come are not those of the digest.
            Unavailable: the connection broke time and again; what came is kept for the next pull.
        """
        path = self.path(wanted.digest)
        with locked(path.with_suffix(".lock")):
            if not self._holds(path, wanted):
                self._require_room(wanted)
                self._download(source, wanted, path, told)
            if told is not None:
                told(wanted.name, wanted.size, wanted.size)
        return path

    def _holds(self, path: Path, wanted: Descriptor) -> bool:
        try:
            require_file(path, wanted.name, wanted)
        except VerificationFailed:
            # Missing, or changed in place: what is not the blob must not keep its name.
            path.unlink(missing_ok=True)
            return False
        with suppress(PermissionError):
            # What was used last is removed last; another user's file keeps its own time.
            os.utime(path)
        return True

    def _require_room(self, wanted: Descriptor) -> None:
        free = shutil.disk_usage(self.folder).free
        if free < wanted.size + RESERVE_BYTES:
            raise FarmError(
                f"There is no room for {wanted.name}.",
                code="disk_full",
                why=f"It has {wanted.size} bytes and {self.folder} has {free} left.",
                fix="Make room, or name another folder with --cache.",
            )

    def _download(
        self, source: ArtifactSource, wanted: Descriptor, path: Path, told: Told | None
    ) -> None:
        part = path.with_suffix(".part")
        for start in range(_FRESH_STARTS):
            self._complete(source, wanted, part, told)
            try:
                require_file(part, wanted.name, wanted)
            except VerificationFailed:
                # The beginning may be from a transfer that went wrong: once more from zero.
                part.unlink(missing_ok=True)
                if start == _FRESH_STARTS - 1:
                    raise
            else:
                part.chmod(READ_ONLY)
                part.rename(path)
                sync_folder(path.parent)
                return

    def _complete(
        self, source: ArtifactSource, wanted: Descriptor, part: Path, told: Told | None
    ) -> None:
        """Bring ``part`` to its full size, through broken connections."""
        best, failures = _size(part), 0
        while True:
            problem: Unavailable | None = None
            try:
                _append(source, wanted, part, told)
            except Unavailable as error:
                problem = error
            here = _size(part)
            if here == wanted.size:
                return
            # A transfer that gets further than ever is not failing, however often it breaks.
            failures = 0 if here > best else failures + 1
            best = max(best, here)
            # A short answer that broke nothing will hardly be longer the next time.
            if failures >= (_TRIES_WHEN_SHORT if problem is None else _TRIES):
                if problem is not None:
                    raise problem
                require_size(wanted.name, here, wanted.size)
            self.sleep(min(0.1 * 2**failures, 2.0))


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _append(source: ArtifactSource, wanted: Descriptor, part: Path, told: Told | None) -> None:
    """Go on where ``part`` ends; stop at once when more comes than was signed."""
    handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "r+b", buffering=0) as stream:
        here = os.fstat(handle).st_size
        if here > wanted.size:
            stream.truncate(0)
            here = 0
        if here == wanted.size:
            return
        with source.open_blob(wanted.digest, here) as body:
            if body.start is None or body.start > here:
                stream.truncate(0)
                return
            stream.seek(body.start)
            stream.truncate()
            _write(stream, body, wanted, told)
        os.fsync(handle)


def _write(stream: FileIO, body: BlobPart, wanted: Descriptor, told: Told | None) -> None:
    here = stream.tell()
    for chunk in body.chunks:
        here += len(chunk)
        if here > wanted.size:
            stream.truncate(0)
            require_size(wanted.name, here, wanted.size)
        _write_all(stream, chunk)
        if told is not None:
            told(wanted.name, here, wanted.size)


def _write_all(stream: FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[stream.write(view) :]
