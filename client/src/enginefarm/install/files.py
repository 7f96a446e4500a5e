"""Files as an installer must treat them.

Never through a link, hashed as they are read, on disk before they are shown; and folders change
places in one step.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from enginefarm.counted import counted
from enginefarm.errors import VerificationFailed
from enginefarm.manifest import Descriptor

CHUNK = 1 << 20
READ_ONLY = 0o444
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def require_file(path: Path, name: str, wanted: Descriptor) -> None:
    """Refuse a file that is not, to the byte, what was signed.

    Raises:
        VerificationFailed: codes ``file_missing``, ``file_not_plain``, ``file_truncated``,
            ``file_too_long``, ``file_digest_mismatch``.
    """
    handle = _open_plain(path, name)
    with os.fdopen(handle, "rb") as stream:
        size = os.fstat(handle).st_size
        require_size(name, size, wanted.size)
        hasher = hashlib.sha256()
        while chunk := stream.read(CHUNK):
            hasher.update(chunk)
    if f"sha256:{hasher.hexdigest()}" != wanted.digest:
        raise digest_mismatch(name, wanted.digest, f"sha256:{hasher.hexdigest()}")


def require_size(name: str, size: int, wanted: int) -> None:
    """Refuse a file that is shorter or longer than what was signed."""
    if size < wanted:
        raise VerificationFailed(
            f"{name} is cut short.",
            code="file_truncated",
            why=f"It has {size} of {counted(wanted, 'byte')}.",
            fix="Pull the artifact again.",
            file=name,
        )
    if size > wanted:
        raise VerificationFailed(
            f"{name} is longer than what was signed.",
            code="file_too_long",
            why=f"It has {counted(size, 'byte')} instead of {wanted}.",
            fix="Do not use it; pull the artifact again.",
            file=name,
        )


def digest_mismatch(name: str, wanted: str, actual: str) -> VerificationFailed:
    """Return the refusal of a file whose size is right and whose bytes are not."""
    return VerificationFailed(
        f"{name} does not hold the bytes that were signed.",
        code="file_digest_mismatch",
        why=f"Its digest is {actual} instead of {wanted}.",
        fix="Do not use it; pull the artifact again.",
        file=name,
        expected=wanted,
        actual=actual,
    )


def read_small(path: Path, name: str, limit: int) -> bytes:
    """Return the bytes of a plain file of at most ``limit`` bytes.

    Raises:
        VerificationFailed: codes ``file_missing``, ``file_not_plain``, ``file_too_long``.
    """
    handle = _open_plain(path, name)
    with os.fdopen(handle, "rb") as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        require_size(name, len(data), limit)
    return data


def write_new(path: Path, data: bytes) -> None:
    """Write a file that was not there, read-only and on disk when this returns."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, READ_ONLY)
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fchmod(handle, READ_ONLY)
        os.fsync(handle)


def sync_folder(path: Path) -> None:
    """Have a folder's entries on disk when this returns."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def sync_file(path: Path) -> None:
    """Have a file's bytes on disk when this returns."""
    _sync(path, os.O_RDONLY | os.O_NOFOLLOW)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that ``path`` stands for; another process waits here."""
    with _holding(path, fcntl.LOCK_EX):
        yield


@contextmanager
def shared(path: Path) -> Iterator[None]:
    """Hold the lock with all others that share it; who wants it alone does not get it."""
    with _holding(path, fcntl.LOCK_SH):
        yield


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock alone.

    Raises:
        BlockingIOError: somebody else holds it.
    """
    with _holding(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
        yield


@contextmanager
def _holding(path: Path, how: int) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)


def exchange(one: Path, other: Path) -> None:
    """Let two folders change places in one step.

    Raises:
        OSError: with ``ENOSYS`` or ``EINVAL`` where the system cannot.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        raise OSError(errno.ENOSYS, "renameat2 is not there")
    done = rename(
        _AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), ctypes.c_uint(_RENAME_EXCHANGE)
    )
    if done != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(other))


def _open_plain(path: Path, name: str) -> int:
    """Open a regular file, never through a link at its end, never waiting on a pipe."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise VerificationFailed(
            f"{name} is missing.",
            code="file_missing",
            why=f"{path} does not exist.",
            fix="Pull the artifact again.",
            file=name,
        ) from error
    except OSError as error:
        raise _not_plain(path, name, error.strerror or "it cannot be opened") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _not_plain(path, name, "it is not a regular file")
    return handle


def _not_plain(path: Path, name: str, reason: str) -> VerificationFailed:
    return VerificationFailed(
        f"{name} cannot be used.",
        code="file_not_plain",
        why=f"{path}: {reason}.",
        fix="Pull the artifact again into another folder.",
        file=name,
    )
