"""Whose job is announced next, when a node has room. Pure.

The backlog stays in the database and a ring goes out only when a node could take the job now, so
the order is decided as late as it can be: an urgent job waits for a job to end, never for a queue.

Between tenants: whoever has used least node time for its weight, within a sliding window, is next.
Within a tenant: what was bumped; then the group (an access key, or a campaign of its builds) that
has the most urgent job, and of equals the one that has used least. Within a group: the more urgent,
then the older. Waiting makes more urgent: a group while it gets nothing, a job within its group; so
nothing starves, and a long campaign does not come to outrank a person's build by its length.
A job that needs a node to itself keeps one from being filled until it is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

PRESUMED_S = 60.0
"""What a job that is being announced counts for, until it has run."""


@dataclass(frozen=True)
class Seat:
    """A node that takes work: what it listens to, and how much of it is taken."""

    node: str
    queues: frozenset[str]
    slots: int = 1
    running: int = 0
    alone: bool = False
    """Whether a job runs there that has the node to itself."""
    memory_bytes: int | None = None
    """The memory that the node gives one job; None: not known."""


@dataclass(frozen=True)
class Wish:
    """A job that waits to be announced.

    ``waited_s``: since its build was asked for. ``memory_bytes``: what it is known to need.
    ``nodes``: the only ones that can do it, if not all can that listen to its queue.
    """

    ring: int
    queue: str
    tenant: str
    group: str = ""
    priority: int = 5
    waited_s: float = 0.0
    bumped: bool = False
    alone: bool = False
    memory_bytes: int = 0
    nodes: frozenset[str] | None = None


@dataclass(frozen=True)
class Announced:
    """A job whose ring is out and not yet answered: it has its seat already."""

    queue: str
    alone: bool = False
    nodes: frozenset[str] | None = None


@dataclass(frozen=True)
class Share:
    """What a tenant may use, and has: node seconds in the window, jobs that run now."""

    weight: float = 1.0
    used_s: float = 0.0
    running: int = 0
    most_running: int | None = None


@dataclass(frozen=True)
class Spent:
    """What a group has used in the window, and how long ago a job of it began; in seconds."""

    used_s: float
    idle_s: float


@dataclass(frozen=True)
class Use:
    """Who has used what, by tenant, and by tenant and group."""

    tenants: Mapping[str, Share] = field(default_factory=dict)
    groups: Mapping[tuple[str, str], Spent] = field(default_factory=dict)


def choose(
    wishes: Iterable[Wish],
    seats: Sequence[Seat],
    announced: Iterable[Announced] = (),
    use: Use | None = None,
    ageing_s: float = 600.0,
) -> list[Wish]:
    """Return the jobs to announce now, the first one first."""
    room = _Room(seats)
    for row in announced:
        room.take(row)
    ledger = _Ledger(use or Use(), ageing_s)
    waiting: dict[str, list[Wish]] = {}
    for wish in wishes:
        if room.serves(wish):
            waiting.setdefault(wish.tenant, []).append(wish)
    chosen: list[Wish] = []
    while waiting and room.left:
        tenant = min(waiting, key=ledger.standing)
        wish = ledger.first(waiting[tenant])
        if ledger.full(tenant):
            del waiting[tenant]
            continue
        if room.take(wish):
            ledger.charge(wish)
            chosen.append(wish)
        elif wish.alone:
            room.reserve(wish)
        waiting[tenant] = [
            row for row in waiting[tenant] if row is not wish and room.may_take(row, wish)
        ]
        if not waiting[tenant]:
            del waiting[tenant]
    return chosen


def level(priority: int, waited_s: float, ageing_s: float) -> int:
    """Return how urgent a job is by now; 0 is the most urgent."""
    return max(0, priority - int(waited_s // ageing_s))


class _Room:
    """The seats, while they are being given away."""

    def __init__(self, seats: Sequence[Seat]) -> None:
        self._seats = seats
        self._free = {
            seat.node: 0 if seat.alone else max(seat.slots - seat.running, 0) for seat in seats
        }

    @property
    def left(self) -> int:
        return sum(self._free.values())

    def serves(self, wish: Wish) -> bool:
        return bool(self._able(wish))

    def take(self, job: Wish | Announced) -> bool:
        """Take a seat, the emptiest node's, so that work spreads; tell whether there was one."""
        able = [
            seat
            for seat in self._able(job)
            if self._free[seat.node] == seat.slots or (self._free[seat.node] > 0 and not job.alone)
        ]
        if not able:
            return False
        best = max(able, key=lambda seat: self._free[seat.node] / seat.slots)
        self._free[best.node] -= best.slots if job.alone else 1
        return True

    def reserve(self, wish: Wish) -> None:
        """Let nobody else onto the node that will be empty soonest."""
        candidates = self._able(wish)
        if candidates:
            best = max(candidates, key=lambda seat: self._free[seat.node] / seat.slots)
            self._free[best.node] = 0

    def may_take(self, wish: Wish, refused_or_placed: Wish) -> bool:
        """Tell whether a job is worth asking about after another one of its tenant."""
        return wish.queue != refused_or_placed.queue or any(
            self._free[seat.node] > 0 for seat in self._able(wish)
        )

    def _able(self, job: Wish | Announced) -> list[Seat]:
        memory_bytes = job.memory_bytes if isinstance(job, Wish) else 0
        return [
            seat
            for seat in self._seats
            if job.queue in seat.queues
            and (job.nodes is None or seat.node in job.nodes)
            and (seat.memory_bytes is None or seat.memory_bytes >= memory_bytes)
        ]


class _Ledger:
    """Who stands where, while jobs are being chosen."""

    def __init__(self, use: Use, ageing_s: float) -> None:
        self._use = use
        self._ageing_s = ageing_s
        self._more: dict[str, int] = {}
        self._more_of_group: dict[tuple[str, str], int] = {}

    def _share(self, tenant: str) -> Share:
        return self._use.tenants.get(tenant, Share())

    def standing(self, tenant: str) -> tuple[float, str]:
        share = self._share(tenant)
        used = share.used_s + PRESUMED_S * self._more.get(tenant, 0)
        return used / share.weight, tenant

    def full(self, tenant: str) -> bool:
        share = self._share(tenant)
        running = share.running + self._more.get(tenant, 0)
        return share.most_running is not None and running >= share.most_running

    def first(self, wishes: Sequence[Wish]) -> Wish:
        """Return the one of a tenant's jobs whose turn it is."""
        groups: dict[str, list[Wish]] = {}
        for wish in wishes:
            groups.setdefault(wish.group, []).append(wish)
        next_of = {name: min(rows, key=self._within_group) for name, rows in groups.items()}
        best = min(groups, key=lambda name: self._between_groups(next_of[name], groups[name]))
        return next_of[best]

    def _within_group(self, wish: Wish) -> tuple[bool, int, float, int]:
        now = level(wish.priority, wish.waited_s, self._ageing_s)
        return not wish.bumped, now, -wish.waited_s, wish.ring

    def _between_groups(
        self, first: Wish, rows: Sequence[Wish]
    ) -> tuple[bool, int, float, float, int]:
        group, longest = (first.tenant, first.group), max(row.waited_s for row in rows)
        spent = self._use.groups.get(group, Spent(0.0, longest))
        more = self._more_of_group.get(group, 0)
        idle = 0.0 if more else min(spent.idle_s, longest)
        rank = level(min(row.priority for row in rows), idle, self._ageing_s)
        return not first.bumped, rank, spent.used_s + PRESUMED_S * more, -longest, first.ring

    def charge(self, wish: Wish) -> None:
        group = (wish.tenant, wish.group)
        self._more[wish.tenant] = self._more.get(wish.tenant, 0) + 1
        self._more_of_group[group] = self._more_of_group.get(group, 0) + 1
