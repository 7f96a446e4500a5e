"""The folder in which a node's operator has laid plugin libraries: one folder for each backend.

Whoever can write a library runs code here, so what others could change is refused. What is found
has the digest of its bytes; nothing is loaded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import structlog
from pydantic import BaseModel, ConfigDict

from enginefarm.digest import digest_of_chunks
from enginefarm.plugins import TAKES_PLUGINS, plain_name

MOST_BYTES = 2 << 30
MOST_LIBRARIES = 64
"""Of one backend."""
MOST_LINKS = 40
SUFFIX = ".so"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
log = structlog.get_logger(__name__)


class Library(BaseModel):
    """A library as it lay in the folder when the node looked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: str
    name: str
    path: Path
    digest: str

    @property
    def label(self) -> str:
        """Return how it is called in a log: its backend and its name."""
        return f"{self.backend}/{self.name}"


class Looked(NamedTuple):
    """What a folder holds; ``refused`` has the reason for each file or folder that is not taken."""

    libraries: list[Library]
    refused: dict[str, str]


class _Refused(Exception):
    """Why something is not taken, as the end of a sentence."""


def look(folder: Path) -> Looked:
    """Return the libraries of a folder, in the order of their names, and what is refused."""
    found = Looked([], {})
    try:
        require_way(folder)
        _require_own(folder)
        inside = sorted(folder.iterdir())
    except (OSError, _Refused) as error:
        found.refused[str(folder)] = _words(error)
        return found
    for place in inside:
        if place.name not in TAKES_PLUGINS:
            why = f"plugins lie in a folder of their backend: {' or '.join(TAKES_PLUGINS)}"
            found.refused[plain_name(place.name)] = why
            continue
        try:
            require_way(place)
            _require_own(place)
            files = sorted(place.iterdir())
        except (OSError, _Refused) as error:
            found.refused[place.name] = _words(error)
            continue
        _look_in(place.name, files, found)
    return found


def _look_in(backend: str, files: list[Path], found: Looked) -> None:
    names: dict[str, str] = {}
    for path in files:
        label = f"{backend}/{plain_name(path.name)}"
        try:
            if len(names) == MOST_LIBRARIES:
                raise _Refused(f"a node takes {MOST_LIBRARIES} libraries of a backend")
            row = _library(backend, path)
            if row.digest in names:
                raise _Refused(f"it is the same as {names[row.digest]}")
        except (OSError, _Refused) as error:
            found.refused[label] = _words(error)
            continue
        names[row.digest] = row.name
        found.libraries.append(row)
        log.info("plugin_found", plugin=label, digest=row.digest)


def _library(backend: str, path: Path) -> Library:
    if plain_name(path.name) != path.name:
        raise _Refused(
            "its name has more than 128 characters, or others than letters, digits, ._+-"
        )
    if path.suffix != SUFFIX:
        raise _Refused(f"its name does not end in {SUFFIX}")
    require_way(path)
    return Library(backend=backend, name=path.name, path=path, digest=_digest(backend, path))


def _digest(backend: str, path: Path) -> str:
    fd = opened(path)
    try:
        told = os.fstat(fd)
        _require_owner("it", told)
        if told.st_mode & _OTHERS_WRITE:
            raise _Refused("its group or others may write it: chmod go-w")
        if told.st_size > MOST_BYTES:
            raise _Refused(f"it has {told.st_size} bytes; at most {MOST_BYTES} are taken")
        log.info("plugin_hashing", plugin=f"{backend}/{path.name}", bytes=told.st_size)
        return digest_of_chunks(chunks_of(fd))
    finally:
        os.close(fd)


def opened(path: Path) -> int:
    """Open a plain file, or a link to one, to read it.

    Raises:
        OSError: it is not there, is not readable, or is something else.
    """
    # Whatever it is by now, opening it must not wait.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError("it is no plain file")


def require_way(path: Path) -> None:
    """Refuse a path that others could make lead elsewhere, by any folder or link on its way.

    Where only owners may rename what is theirs (sticky, as the folder for temporary files is),
    whose a thing is decides.

    Raises:
        OSError: something on the way is not there.
    """
    place, parts, links = Path(path.anchor or "/"), list(path.absolute().parts[1:]), 0
    while parts:
        part = parts.pop(0)
        if part == os.pardir:
            place = place.parent
            continue
        _require_own(place, sticky=True)
        here = place / part
        told = here.lstat()
        if not stat.S_ISLNK(told.st_mode):
            place = here
            continue
        _require_owner(f"the link {here}", told)
        links += 1
        if links > MOST_LINKS:
            raise _Refused("too many links lead to it")
        goal = here.readlink()
        place = Path(goal.anchor) if goal.is_absolute() else place
        parts = [*goal.parts[1 if goal.is_absolute() else 0 :], *parts]


def _require_own(folder: Path, *, sticky: bool = False) -> None:
    """Refuse a folder in which others could lay another file under the same name."""
    told = folder.stat()
    if not stat.S_ISDIR(told.st_mode):
        raise _Refused("it is no folder")
    _require_owner(f"the folder {folder}", told)
    shared = sticky and told.st_mode & stat.S_ISVTX
    if told.st_mode & _OTHERS_WRITE and not shared:
        raise _Refused(f"the group or others may write the folder {folder}: chmod go-w")


def _require_owner(what: str, told: os.stat_result) -> None:
    """Refuse what belongs to somebody else, who may write it whenever he likes."""
    if told.st_uid not in {0, os.geteuid()}:
        raise _Refused(
            f"{what} belongs to user {told.st_uid}: chown it to root, or to the node's user"
        )


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror.lower()}"
    return str(error)


def chunks_of(fd: int, size: int = 1 << 20) -> Iterator[bytes]:
    """Yield what is left of an open file."""
    while chunk := os.read(fd, size):
        yield chunk
