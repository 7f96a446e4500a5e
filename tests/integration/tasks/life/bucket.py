"""The bucket of a schedule: what is in it grows old without waiting."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Protocol

from storage.objects import Objects


class Clock(Protocol):
    """What tells how much time has passed in a schedule."""

    clock: int


class AgeingBucket:
    """The real bucket; what is stored in it grows old with the schedule's clock."""

    def __init__(self, real: Objects, world: Clock) -> None:
        self._real, self._world = real, world
        self._born: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the real one has
        """Do whatever else the real bucket does."""
        return getattr(self._real, name)

    def listing(self, after: str = "") -> list[tuple[str, datetime]]:
        """Tell of each object as if it had been stored when this schedule first heard of it."""
        return [
            (digest, stored - timedelta(seconds=self._world.clock - self._birth(digest)))
            for digest, stored in self._real.listing(after)
        ]

    def put_bytes(self, digest: str, data: bytes, media_type: str) -> None:
        self._birth(digest)
        self._real.put_bytes(digest, data, media_type)

    def remove(self, digest: str) -> None:
        self._born.pop(digest, None)
        self._real.remove(digest)

    def _birth(self, digest: str) -> int:
        return self._born.setdefault(digest, self._world.clock)


def clear(objects: Objects) -> None:
    """Let nothing be left of an earlier schedule."""
    while page := objects.listing():
        for digest, _ in page:
            objects.remove(digest)
    while sent := objects.staging.listing():
        for place, _ in sent:
            objects.staging.remove(place)
