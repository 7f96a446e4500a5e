"""Timing caches that are sets of names: what every port to caches must do, to be looked at."""

from __future__ import annotations

import json
from pathlib import Path

from workers.timing import TimingCaches, merge_files

VERSION = "11.4.0.106"


def packed(*names: str, version: str = VERSION) -> bytes:
    """Return a cache with these entries, as one version writes it."""
    return json.dumps({"version": version, "entries": sorted(set(names))}).encode()


def names_in(data: bytes) -> set[str]:
    """Return the entries of a cache."""
    return set(json.loads(data)["entries"])


class SetCaches:
    """Merges sets; takes no cache of another version, and nothing that is damaged."""

    def __init__(self, version: str = VERSION) -> None:
        self._version = version

    def merged(self, mine: bytes, theirs: bytes) -> bytes | None:
        one, other = self._read(mine), self._read(theirs)
        if one is None or other is None:
            return None
        return packed(*one, *other, version=self._version)

    def entries(self, data: bytes) -> int | None:
        found = self._read(data)
        return None if found is None else len(found)

    def _read(self, data: bytes) -> set[str] | None:
        try:
            told = json.loads(data or packed(version=self._version))
            return set(told["entries"]) if told["version"] == self._version else None
        except (ValueError, KeyError, TypeError):
            return None


def joined(caches: TimingCaches, mine: bytes, theirs: bytes, folder: Path) -> bytes | None:
    """Merge through files, as a child does."""
    folder.mkdir(exist_ok=True)
    one, other = folder / "mine", folder / "theirs"
    one.write_bytes(mine)
    other.write_bytes(theirs)
    left = merge_files(caches, one, other, folder)
    return None if left.path is None else left.path.read_bytes()
