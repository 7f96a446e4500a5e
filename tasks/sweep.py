"""Remove from the bucket what nobody needs: marked first, removed when a grace has passed.

A round goes through the blobs page by page, one page a turn, then removes what is due, one batch
a turn, so that no turn is long. Then it goes through what attempts have sent: that is no row's, so
it leaves with its attempt. At last it gives up copies that whoever made them has not lived to end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from storage import attempts, garbage
from storage.database import now
from storage.staging import sender_of
from tasks.farm import Farm

_log = structlog.get_logger()


@dataclass
class Sweeper:
    """Where the round has got to, and when the next one begins."""

    farm: Farm
    rounds: int = 0
    _after: str = ""
    _step: int = 0
    _next: float = 0.0

    def turn(self) -> int:
        """Take the next step of a round; return how much was removed."""
        if time.monotonic() < self._next:
            return 0
        return (self._look, self._remove, self._leave, self._give_up)[self._step]()

    def _look(self) -> int:
        page = self.farm.objects.listing(self._after)
        grace = timedelta(seconds=self.farm.policy.garbage_grace_s)
        old = [digest for digest, stored in page if stored < now() - grace]
        with self.farm.database.transaction() as session:
            needed = garbage.needed(session, old)
            garbage.mark(session, set(old) - needed)
        self._go_on([digest for digest, _ in page])
        return 0

    def _remove(self) -> int:
        before = now() - timedelta(seconds=self.farm.policy.garbage_grace_s)
        with self.farm.database.transaction() as session:
            due = garbage.due(session, before)
        self._go_on(due)
        return remove(self.farm, due, before)

    def _leave(self) -> int:
        page = [place for place, _ in self.farm.objects.staging.listing(self._after)]
        with self.farm.database.transaction() as session:
            at_work = attempts.at_work(session, {sender_of(place) for place in page})
        left = [place for place in page if sender_of(place) not in at_work]
        for place in left:
            self.farm.objects.staging.remove(place)
        self._go_on(page)
        if left:
            _log.info("left_behind_removed", count=len(left))
        return len(left)

    def _give_up(self) -> int:
        before = now() - timedelta(seconds=self.farm.policy.upload_grace_s)
        ended = self.farm.objects.parts.give_up(before)
        self._step, self.rounds = 0, self.rounds + 1
        self._next = time.monotonic() + self.farm.policy.sweep_every_s
        if ended:
            _log.info("copies_given_up", count=ended)
        return ended

    def _go_on(self, page: Sequence[str]) -> None:
        """Go on behind this page, or with the next step if there was nothing."""
        self._after = page[-1] if page else ""
        self._step += not page


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
