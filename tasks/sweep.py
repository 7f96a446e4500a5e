"""Remove from the bucket what nobody needs: marked first, removed when a grace has passed.

A round goes through the bucket page by page, one page a turn, so that no turn is long.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta

import structlog

from storage import garbage
from storage.database import now
from tasks.farm import Farm

_log = structlog.get_logger()


@dataclass
class Sweeper:
    """Where the round has got to, and when the next one begins."""

    farm: Farm
    _after: str = ""
    _next: float = 0.0

    def turn(self) -> int:
        """Look at one page, or remove what is due at a round's end; return how much was removed."""
        if time.monotonic() < self._next:
            return 0
        page = self.farm.objects.listing(self._after)
        grace = timedelta(seconds=self.farm.policy.garbage_grace_s)
        old = [digest for digest, stored in page if stored < now() - grace]
        with self.farm.database.transaction() as session:
            needed = garbage.needed(session, old)
            garbage.mark(session, set(old) - needed)
        if page:
            self._after = page[-1][0]
            return 0
        self._after, self._next = "", time.monotonic() + self.farm.policy.sweep_every_s
        return remove_due(self.farm)


def remove_due(farm: Farm) -> int:
    """Remove what was marked longer ago than the grace and is needed by nobody still."""
    before = now() - timedelta(seconds=farm.policy.garbage_grace_s)
    with farm.database.transaction() as session:
        due = garbage.due(session, before)
    removed = 0
    for digest in due:
        with farm.database.transaction() as session:
            if garbage.claim(session, digest, before):
                farm.objects.remove(digest)
                removed += 1
    if removed:
        _log.info("garbage_removed", count=removed)
    return removed
