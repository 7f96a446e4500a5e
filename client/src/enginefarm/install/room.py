"""What the cache of fetched files holds, and how it is made smaller: the longest unused goes first.

A pull marks what it uses, and holds the cache while it runs; nothing is removed under its hands.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from enginefarm.install.cache import BlobCache

_PART, _LOCK = ".part", ".lock"


@dataclass(frozen=True)
class Kept:
    """A file of the cache.

    ``used_at`` is when a pull last used it, in seconds since 1970. ``shared``: an install folder
    has the same bytes on the disk, so that removing it here makes no room. ``whole`` is false for
    the beginning of a file whose transfer stopped.
    """

    path: Path
    digest: str
    size: int
    used_at: float
    shared: bool
    whole: bool


@dataclass(frozen=True)
class Pruned:
    """What was removed, and what is left."""

    removed: list[Kept]
    left: list[Kept]


def kept_in(cache: BlobCache) -> list[Kept]:
    """Return what a cache holds, what was used last first."""
    found = [each for path in (cache.folder / "sha256").glob("??/*") for each in _kept(path)]
    return sorted(found, key=lambda each: (-each.used_at, each.digest))


def _kept(path: Path) -> Iterator[Kept]:
    if path.suffix == _LOCK:
        return
    try:
        seen = path.lstat()
    except FileNotFoundError:
        return
    yield Kept(
        path,
        f"sha256:{path.stem}",
        seen.st_size,
        seen.st_mtime,
        shared=seen.st_nlink > 1,
        whole=path.suffix != _PART,
    )


def prune(
    cache: BlobCache,
    *,
    keep_bytes: int | None = None,
    older_than_s: float | None = None,
    now: float | None = None,
) -> Pruned:
    """Remove what was not used for ``older_than_s`` seconds, and the oldest above ``keep_bytes``.

    Raises:
        Conflict: a pull uses the cache (code ``cache_in_use``).
    """
    at = time.time() if now is None else now
    removed, left = list[Kept](), list[Kept]()
    with cache.alone():
        total, full = 0, False
        for each in kept_in(cache):
            old = older_than_s is not None and at - each.used_at > older_than_s
            full = full or (keep_bytes is not None and total + each.size > keep_bytes)
            if old or full:
                each.path.unlink(missing_ok=True)
                each.path.with_suffix(_LOCK).unlink(missing_ok=True)
                removed.append(each)
            else:
                total += each.size
                left.append(each)
    return Pruned(removed, left)
