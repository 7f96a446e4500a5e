"""The port to timing caches: merge two, count one. And what a build leaves of its own.

A cache is bytes to everybody but its runtime, and may hold compiled code: it is only opened in a
child process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict

ROLE, OTHER_ROLE, FILE_NAME = "timing-cache", "timing-cache-newest", "timing.cache"


class TimingCaches(Protocol):
    """What a runtime does with caches of its own version, its GPU and its options.

    Merging is a union: what either has, the result has; where both have an entry, the first's
    stays. Merging a cache with itself, or again, adds nothing.
    """

    def merged(self, mine: bytes, theirs: bytes) -> bytes | None:
        """Return both in one; None if the runtime does not take one of them."""

    def entries(self, data: bytes) -> int | None:
        """Return how many entries a cache has; None if the runtime does not take it."""


class ChildTiming(BaseModel):
    """What a build, or a merge, leaves: its cache, and what the runtime said of it.

    ``refused``: why the snapshot that it was given was not taken. ``hits``: entries that served it,
    by the runtime's own log; absent where that says nothing. ``kept_back``: why what it has timed
    is for nobody else.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Path | None = None
    entries: int = 0
    hits: int | None = None
    refused: str | None = None
    kept_back: str | None = None


def merge_files(caches: TimingCaches, mine: Path, theirs: Path, folder: Path) -> ChildTiming:
    """Merge two files into a third; what is left tells why, if the runtime refused the second."""
    second = theirs.read_bytes()
    if caches.entries(second) is None:
        return ChildTiming(refused="The runtime does not take it.")
    both = caches.merged(mine.read_bytes(), second)
    if both is None:
        return ChildTiming(refused="The runtime takes it, but does not merge it.")
    path = folder / FILE_NAME
    path.write_bytes(both)
    return ChildTiming(path=path, entries=caches.entries(both) or 0)
