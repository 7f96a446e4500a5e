"""Keep nothing for ever that its operator does not: one batch of one rule a turn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from storage import builds
from storage.database import now
from storage.keeping import SHELVES, Key
from storage.retention import Rule, Terms, Thing, is_due, setting_of
from tasks.farm import Farm

_BATCH = 100
_log = structlog.get_logger()


@dataclass
class Keeper:
    """Where the round through the rules has got to, and when the next one begins."""

    farm: Farm
    terms: Terms
    rounds: int = 0
    _rule: Rule | None = None
    _after: Key | None = None
    _next: float = 0.0

    def turn(self) -> int:
        """Look at one batch of one rule and remove what is due of it; return how much that was."""
        if time.monotonic() < self._next:
            return 0
        rule = self._rule or next(iter(Rule))
        before = self.terms.before(rule, now())
        if before is None:
            self._step(rule, ())
            return 0
        with self.farm.database.transaction() as session:
            things = SHELVES[rule].page(session, before, self._after, _BATCH)
        removed = [thing for thing in things if is_due(thing, before) and self._remove(thing)]
        if removed:
            _log.info(
                "no_longer_kept", what=str(rule), count=len(removed), setting=setting_of(rule)
            )
        self._step(rule, things)
        return len(removed)

    def _step(self, rule: Rule, things: Sequence[Thing]) -> None:
        """Go on behind this batch; after the last of a rule with the next rule."""
        if things:
            self._rule, self._after = rule, things[-1].key
            return
        rules = list(Rule)
        following = rules.index(rule) + 1
        self._after = None
        if following < len(rules):
            self._rule = rules[following]
            return
        self._rule, self.rounds = None, self.rounds + 1
        self._next = time.monotonic() + self.farm.policy.sweep_every_s

    def _remove(self, thing: Thing) -> bool:
        """Remove one thing, unless somebody has come to use it since it was looked at."""
        shelf = SHELVES[thing.rule]
        with self.farm.database.transaction() as session:
            builds.lock_tenant(session, thing.tenant_id)
            found = shelf.again(session, thing)
            if found is None or not is_due(found, self.terms.before(thing.rule, now())):
                return False
            shelf.remove(session, found)
            return True
