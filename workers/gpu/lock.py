"""One owner per device: a lock for each UUID that the kernel frees when its holder dies.

``flock`` on a file in a folder that all node processes of a host share. The job's own child holds
it, so that no crash, of whoever, leaves a device locked. The file is never removed: a second one of
the same name would be a second lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from enginefarm.errors import JobFailed
from enginefarm.state import Blame
from tasks.messages import DEVICE_BUSY

LOOK_S = 0.2
OPEN_TO_ALL, FOLDER_OF_ALL = 0o666, 0o1777


class DeviceLock:
    """A lock that is held until :meth:`free`, or until this process ends."""

    def __init__(self, uuid: str, fd: int) -> None:
        """Keep the open file that holds the lock."""
        self.uuid = uuid
        self._fd = fd

    def free(self) -> None:
        """Let another have the device."""
        os.close(self._fd)


def try_lock(folder: Path, uuid: str, *, shared: bool = False) -> DeviceLock | None:
    """Take the device if nobody has it; ``shared`` suffers others that share it.

    Raises:
        JobFailed: the folder cannot be used (code ``device_lock_unavailable``).
    """
    try:
        fd = _open(folder, uuid)
    except OSError as error:
        raise _unavailable(folder, error) from error
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except OSError as error:
        os.close(fd)
        raise _unavailable(folder, error) from error
    return DeviceLock(uuid, fd)


def take_one(
    folder: Path,
    uuids: Sequence[str],
    *,
    shared: bool,
    wait_s: float,
    waiting: Callable[[], bool],
) -> DeviceLock:
    """Take the first of these devices that is free, or becomes free within ``wait_s``.

    ``waiting`` is called while none is, and tells whether to give up.

    Raises:
        JobFailed: none became free (code ``device_busy``), or the work is to stop (``cancelled``).
    """
    deadline = time.monotonic() + wait_s
    while True:
        for uuid in uuids:
            held = try_lock(folder, uuid, shared=shared)
            if held is not None:
                return held
        if waiting():
            raise JobFailed("The job was stopped.", blame=Blame.NODE, code="cancelled")
        if time.monotonic() > deadline:
            raise JobFailed(
                "No GPU of this node became free.",
                blame=Blame.NODE,
                code=DEVICE_BUSY,
                why=f"Other jobs had {', '.join(uuids)} for {wait_s:g} s.",
                fix="Nothing: the job is tried again by itself.",
            )
        time.sleep(LOOK_S)


def _open(folder: Path, uuid: str) -> int:
    """Open the lock's file, also one that a node of another user has made."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(PermissionError):
            folder.chmod(FOLDER_OF_ALL)
    path = folder / f"{uuid}.lock"
    # Anybody of the host may have put something there: to open a pipe would wait for its writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    # A kernel that protects sticky folders lets nobody create over another's file, yet open it.
    with suppress(FileNotFoundError):
        return _plain(os.open(path, flags), path)
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, OPEN_TO_ALL)
    except FileExistsError:
        return _plain(os.open(path, flags), path)
    os.fchmod(fd, OPEN_TO_ALL)
    return fd


def _plain(fd: int, path: Path) -> int:
    """Return an open file that is a plain one; close it and raise OSError if it is none."""
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, f"{path.name} is no plain file")


def _unavailable(folder: Path, error: OSError) -> JobFailed:
    return JobFailed(
        "The node cannot lock a GPU.",
        blame=Blame.NODE,
        code="device_lock_unavailable",
        why=f"{folder}: {error.strerror or error}.",
        fix="Set ENGINEFARM_DEVICE_LOCK_DIR to a folder that all nodes of this host can write.",
    )
