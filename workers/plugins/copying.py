"""The libraries of one job, copied out of the operator's folder and hashed as they are copied.

What a job loads is its copy, so it is what was hashed, whatever becomes of the file in the folder.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from enginefarm.errors import JobFailed
from enginefarm.plugins import Named
from enginefarm.state import Blame
from workers.plugins.folder import MOST_BYTES, Library, chunks_of, opened
from workers.transfer import TransferStopped

COPIES = "plugins"
MODE = 0o444
_NOT_THE_FILES = frozenset({errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOSPC})
"""What says something of this machine now, and nothing of a library."""
Stop = Callable[[], str | None]


@dataclass(frozen=True)
class Shelf:
    """The libraries that a node has announced. ``gone`` hears which of them cannot be had."""

    libraries: Sequence[Library] = ()
    gone: Callable[[str, str], None] = lambda _backend, _digest: None

    def find(self, backend: str, digest: str) -> Library | None:
        """Return a library, if it was announced."""
        rows = (row for row in self.libraries if (row.backend, row.digest) == (backend, digest))
        return next(rows, None)


def copied(named: Named, shelf: Shelf, scratch: Path, stop: Stop) -> dict[str, list[Path]]:
    """Copy the libraries that a recipe names into a job's folder; return where they lie.

    Raises:
        JobFailed: one is not there (``plugin_missing``), or is another than it was
            (``plugin_changed``). It has been told, so the farm sends no more jobs for it.
        TransferStopped: ``stop`` gave a reason.
    """
    found: dict[str, list[Path]] = {}
    for backend, digests in named.items():
        folder = scratch / COPIES / backend
        folder.mkdir(parents=True)
        for digest in digests:
            try:
                found.setdefault(backend, []).append(_one(shelf, backend, digest, folder, stop))
            except JobFailed:
                shelf.gone(backend, digest)
                raise
    return found


def _one(shelf: Shelf, backend: str, digest: str, folder: Path, stop: Stop) -> Path:
    library = shelf.find(backend, digest)
    if library is None:
        raise _missing(backend, digest, "It was not there when the node started.")
    goal = folder / library.name
    try:
        source = opened(library.path)
    except OSError as error:
        if error.errno in _NOT_THE_FILES:
            raise
        raise _unreadable(library, error) from error
    try:
        there = copy_hashed(source, goal, stop)
    except OSError as error:
        if error.errno in _NOT_THE_FILES:
            raise
        raise _unreadable(library, error) from error
    finally:
        os.close(source)
    if there != digest:
        goal.unlink()
        raise _changed(library, there)
    return goal


def copy_hashed(source: int, goal: Path, stop: Stop = lambda: None) -> str:
    """Copy what is left of an open file to a new one that nobody may write; return its digest.

    Raises:
        TransferStopped: ``stop`` gave a reason.
    """
    hasher, copied = hashlib.sha256(), 0
    with goal.open("xb") as stream:
        for chunk in chunks_of(source):
            if stop() is not None:
                raise TransferStopped
            copied += len(chunk)
            hasher.update(chunk)
            if copied > MOST_BYTES:
                break  # it has grown beyond what is taken, and is no longer what it was
            stream.write(chunk)
        os.fchmod(stream.fileno(), MODE)
    return f"sha256:{hasher.hexdigest()}"


def _unreadable(library: Library, error: OSError) -> JobFailed:
    said = error.strerror or str(error)
    return _missing(library.backend, library.digest, f"{library.label}: {said.lower()}.")


def _missing(backend: str, digest: str, why: str) -> JobFailed:
    return JobFailed(
        f"This node cannot give a job the plugin {digest} for {backend}.",
        blame=Blame.NODE,
        code="plugin_missing",
        why=why,
        fix="Lay the library into ENGINEFARM_NODE_PLUGINS again, and start the node again.",
    )


def _changed(library: Library, there: str) -> JobFailed:
    return JobFailed(
        f"The plugin {library.label} is not what it was when the node started.",
        blame=Blame.NODE,
        code="plugin_changed",
        why=f"It was {library.digest}, and is {there} now. It was not loaded.",
        fix="Lay another version beside it under another name, and start the node again.",
    )
