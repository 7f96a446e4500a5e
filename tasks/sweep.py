"""Remove from the bucket what nobody needs: marked first, removed when a grace has passed.

A round goes through the bucket page by page, one page a turn, then removes what is due, one batch
a turn, so that no turn is long.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from storage import garbage
from storage.database import now
from tasks.farm import Farm

_log = structlog.get_logger()


@dataclass
class Sweeper:
    """Where the round has got to, and when the next one begins."""

    farm: Farm
    rounds: int = 0
    _after: str = ""
    _looked: bool = False
    _next: float = 0.0

    def turn(self) -> int:
        """Look at one page, or remove one batch at a round's end; return how much was removed."""
        if time.monotonic() < self._next:
            return 0
        return self._remove() if self._looked else self._look()

    def _look(self) -> int:
        page = self.farm.objects.listing(self._after)
        grace = timedelta(seconds=self.farm.policy.garbage_grace_s)
        old = [digest for digest, stored in page if stored < now() - grace]
        with self.farm.database.transaction() as session:
            needed = garbage.needed(session, old)
            garbage.mark(session, set(old) - needed)
        self._after, self._looked = (page[-1][0], False) if page else ("", True)
        return 0

    def _remove(self) -> int:
        before = now() - timedelta(seconds=self.farm.policy.garbage_grace_s)
        with self.farm.database.transaction() as session:
            due = garbage.due(session, before)
        if not due:
            self._looked, self.rounds = False, self.rounds + 1
            self._next = time.monotonic() + self.farm.policy.sweep_every_s
        return remove(self.farm, due, before)


def remove(farm: Farm, due: Sequence[str], before: datetime) -> int:
    """Remove those of these bytes that nobody has come to need since they were marked."""
    removed = 0
    for digest in due:
        with farm.database.transaction() as session:
            if garbage.claim(session, digest, before):
                farm.objects.remove(digest)
                removed += 1
    if removed:
        _log.info("garbage_removed", count=removed)
    return removed
