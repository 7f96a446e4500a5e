"""Keep nothing for ever that its operator does not: one batch of one rule a turn."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from enginefarm.errors import Unavailable
from storage import builds, retention_rounds
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
    _unreadable: int = 0
    _failed: bool = False

    def turn(self) -> int:
        """Look at one batch of one rule and remove what is due of it; return how much that was."""
        if time.monotonic() < self._next:
            return 0
        rule = self._rule or next(iter(Rule))
        before = self.terms.before(rule, now())
        if before is None:
            self._step(rule, ())
            return 0
        things = self._look(rule, before)
        removed = [thing for thing in things if is_due(thing, before) and self._goes(thing)]
        if removed:
            _log.info(
                "no_longer_kept", what=str(rule), count=len(removed), setting=setting_of(rule)
            )
        self._step(rule, things)
        return len(removed)

    def _look(self, rule: Rule, before: datetime) -> Sequence[Thing]:
        """Return the next batch; a rule that cannot be followed leaves the turn to the others."""
        try:
            with self.farm.database.transaction() as session:
                things = SHELVES[rule].page(session, before, self._after, _BATCH)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - one rule must not keep the others from their turn
            _log.error("retention_rule_failed", rule=str(rule), traceback=traceback.format_exc())
            self._failed = True
            return ()
        for thing in things:
            if thing.unreadable:
                self._unreadable += 1
                told = {"rule": str(rule), "tenant": thing.tenant_id, "name": thing.name}
                _log.error("retention_unreadable", why=thing.unreadable, **told)
        return things

    def _goes(self, thing: Thing) -> bool:
        """Remove one thing; tell whether it went. What cannot be removed stops no other."""
        try:
            return self._remove(thing)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - it is looked at again in the next round
            told = {"rule": str(thing.rule), "tenant": thing.tenant_id, "name": thing.name}
            _log.error("retention_failed", traceback=traceback.format_exc(), **told)
            return False

    def _step(self, rule: Rule, things: Sequence[Thing]) -> None:
        """Go on behind this batch; after the last of a rule with the next rule."""
        if things:
            self._rule, self._after = rule, things[-1].key
            return
        self._note(rule)
        rules = list(Rule)
        following = rules.index(rule) + 1
        self._after = None
        if following < len(rules):
            self._rule = rules[following]
            return
        self._rule, self.rounds = None, self.rounds + 1
        self._next = time.monotonic() + self.farm.policy.sweep_every_s

    def _note(self, rule: Rule) -> None:
        """Note what a rule could not read; of one that could not be followed, nothing is known."""
        if not self._failed:
            with self.farm.database.transaction() as session:
                retention_rounds.note(session, rule, self._unreadable)
        self._unreadable, self._failed = 0, False

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
