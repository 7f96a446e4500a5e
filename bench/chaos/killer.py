"""Who kills: from a shuffled deck of ways to die, at random moments, by a seed.

The seed decides what is killed and how long is waited; what that hits is the farm's own timing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bench.chaos.farm import Say, Victim, empty, kill, tree, until_dead
from tasks.fault_points import POINTS

SERVICES = ("valkey", "postgres", "seaweedfs")
PARTS = ("api", "tasks", "workers", *SERVICES)
DATALESS = "valkey, its data removed"
NODE_HEAD, SLOT, CHILD = "the node's head", "the node's slot", "the job's child"
TWO, POINT = "two parts", "a named step"
DECK = (*PARTS, DATALESS, NODE_HEAD, SLOT, CHILD, TWO, TWO, POINT, POINT, POINT)
"""Every way comes up once a deck; the named steps are many, so they come up more often."""

_NOT_REACHED = "cancel."  # nobody cancels here
_PATIENCE_S = 10.0
_LONGEST_AWAY_S = 4.0


@dataclass(frozen=True)
class Kill:
    """One death, or two at one moment: when, and what."""

    at: datetime
    what: str


@dataclass
class Killer:
    """Kills until it has killed often enough."""

    victim: Victim
    number: int
    pause_s: float
    rng: random.Random
    say: Say
    kills: list[Kill] = field(default_factory=list)
    ended: bool = False
    _deck: list[str] = field(default_factory=list)

    @property
    def done(self) -> float:
        """How much of the killing is done, from 0 to 1."""
        return 1.0 if self.ended else len(self.kills) / max(self.number, 1)

    def run(self) -> None:
        """Kill, at random moments, as often as was asked."""
        try:
            while len(self.kills) < self.number:
                longest = 4 * self.pause_s
                time.sleep(min(self.rng.expovariate(1 / self.pause_s), longest))
                self._draw()
        finally:
            self.ended = True
            for path in self.victim.faults.iterdir():
                path.unlink(missing_ok=True)

    def _draw(self) -> None:
        if not self._deck:
            self._deck = list(DECK)
            self.rng.shuffle(self._deck)
        card = self._deck.pop()
        ways: dict[str, Callable[[], str | None]] = {
            DATALESS: self._dataless,
            NODE_HEAD: self._node_head,
            SLOT: self._slot,
            CHILD: self._child,
            TWO: self._two,
            POINT: self._point,
        }
        before = datetime.now(UTC)
        what = ways[card]() if card in ways else self._parts(card)
        if what is None:
            self.say(f"  nothing to kill: {card}")
            return
        at = before if card in PARTS else datetime.now(UTC)
        self.kills.append(Kill(at, what))
        self.say(f"  kill {len(self.kills)}/{self.number}: {what}")

    def _parts(self, *names: str) -> str | None:
        """Kill parts with all below them; now and then they stay away for a while."""
        away = self.rng.uniform(0, _LONGEST_AWAY_S) if self.rng.random() < 1 / 2 else 0.0
        with self.victim.untended():
            mains = [self.victim.part(name) for name in names]
            hit = [kill(tree(row)) for row in mains if row is not None]
            time.sleep(away)
        return " + ".join(names) if any(hit) else None

    def _two(self) -> str | None:
        return self._parts(*sorted(self.rng.sample(PARTS, 2)))

    def _dataless(self) -> str | None:
        with self.victim.untended():
            main = self.victim.part("valkey")
            if main is None or not kill([main]):
                return None
            until_dead(main)
            empty(self.victim.folder.path / "valkey")
        return DATALESS

    def _node_head(self) -> str | None:
        main = self.victim.part("workers")
        return NODE_HEAD if main is not None and kill([main]) else None

    def _slot(self) -> str | None:
        return SLOT if self._soon(lambda: kill(self.victim.slots())) else None

    def _child(self) -> str | None:
        return CHILD if self._soon(lambda: kill(self.victim.job_children())) else None

    def _point(self) -> str | None:
        """Arm a step and wait until a process has died there; one that nobody reaches is none."""
        name = self.rng.choice([row for row in sorted(POINTS) if not row.startswith(_NOT_REACHED)])
        armed = self.victim.faults / name
        armed.touch()
        if self._soon(lambda: not armed.exists()):
            return f"at {name}"
        try:
            armed.unlink()
        except FileNotFoundError:
            return f"at {name}"
        return None

    def _soon(self, happens: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + _PATIENCE_S
        while not happens():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True
