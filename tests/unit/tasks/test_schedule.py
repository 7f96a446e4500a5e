"""The rule by which jobs are announced is fair between tenants, and nothing starves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import pytest

from tasks.schedule import Announced, Seat, Share, Spent, Use, Wish, choose, level

CPU = "compile.cpu"
ALONE = "benchmark.cpu"
NODE = Seat("a", frozenset({CPU, ALONE}))


def wish(ring: int, tenant: str = "acme", **fields: object) -> Wish:
    return replace(Wish(ring, CPU, tenant), **fields)  # type: ignore[arg-type]  # fields of Wish


def rings(chosen: Iterable[Wish]) -> list[int]:
    return [row.ring for row in chosen]


@dataclass
class Simulation:
    """One farm in steps of a second: what waits, what runs, who has used what."""

    seats: list[Seat]
    weights: dict[str, float] = field(default_factory=dict)
    ageing_s: float = 600.0
    waiting: list[tuple[int, Wish, int]] = field(default_factory=list)
    running: list[tuple[int, str, Wish]] = field(default_factory=list)
    used: Counter[tuple[str, str]] = field(default_factory=Counter)
    last: dict[tuple[str, str], int] = field(default_factory=dict)
    began: dict[int, int] = field(default_factory=dict)
    now: int = 0

    def add(self, new: Wish, seconds: int) -> None:
        self.waiting.append((self.now, new, seconds))

    def run(self, until: int, arrivals: Callable[[Simulation], None] | None = None) -> None:
        while self.now < until:
            if arrivals is not None:
                arrivals(self)
            self.running = [row for row in self.running if row[0] > self.now]
            self._start()
            for _, _, row in self.running:
                self.used[row.tenant, row.group] += 1
            self.now += 1

    def _start(self) -> None:
        if not any(seat.running < seat.slots for seat in self._taken()):
            return
        wishes = [replace(row, waited_s=self.now - at) for at, row, _ in self.waiting]
        for chosen in choose(wishes, self._taken(), (), self._use(), self.ageing_s):
            entry = next(row for row in self.waiting if row[1].ring == chosen.ring)
            self.waiting.remove(entry)
            self.running.append((self.now + entry[2], self._place(chosen), chosen))
            self.began[chosen.ring] = self.last[chosen.tenant, chosen.group] = self.now

    def _taken(self) -> list[Seat]:
        on = {seat.node: [row for _, node, row in self.running if node == seat.node]
              for seat in self.seats}  # fmt: skip
        return [
            replace(
                seat,
                running=len(on[seat.node]),
                alone=any(row.alone for row in on[seat.node]),
            )
            for seat in self.seats
        ]

    def _place(self, chosen: Wish) -> str:
        free = {
            seat.node: seat.slots - seat.running
            for seat in self._taken()
            if chosen.queue in seat.queues and not seat.alone
        }
        node = max(free, key=lambda name: free[name])
        assert free[node] > 0
        return node

    def _use(self) -> Use:
        tenants = {tenant for tenant, _ in self.used} | set(self.weights)
        shares = {
            tenant: Share(
                weight=self.weights.get(tenant, 1.0),
                used_s=sum(s for (name, _), s in self.used.items() if name == tenant),
                running=sum(row.tenant == tenant for _, _, row in self.running),
            )
            for tenant in tenants
        }
        spent = {
            group: Spent(seconds, self.now - self.last[group])
            for group, seconds in self.used.items()
        }
        return Use(shares, spent)


def backlog_of(tenant: str, first: int, count: int, **fields: object) -> list[Wish]:
    return [wish(first + n, tenant, **fields) for n in range(count)]


def test_tenants_that_always_have_work_share_by_weight() -> None:
    farm = Simulation([NODE], weights={"big": 3.0, "small": 1.0})
    for row in backlog_of("big", 0, 100) + backlog_of("small", 1000, 100):
        farm.add(row, 60)
    farm.run(80 * 60)

    big = sum(seconds for (tenant, _), seconds in farm.used.items() if tenant == "big")
    assert big / sum(farm.used.values()) == pytest.approx(0.75, abs=0.02)


def test_who_comes_to_a_busy_farm_is_next_however_long_the_others_queue_is() -> None:
    farm = Simulation([NODE])
    for row in backlog_of("campaign", 0, 100):
        farm.add(row, 60)
    farm.run(60 * 60)
    farm.add(wish(9000, "visitor"), 60)
    came = farm.now
    farm.run(came + 120)

    assert farm.began[9000] - came <= 60


def test_a_short_build_of_a_person_is_not_stuck_behind_a_campaign_of_the_same_tenant() -> None:
    farm = Simulation([NODE])
    for row in backlog_of("acme", 0, 100, group="ci/nightly"):
        farm.add(row, 60)
    farm.run(60 * 60)
    farm.add(wish(9000, "acme", group="person/"), 10)
    came = farm.now
    farm.run(came + 120)

    assert farm.began[9000] - came <= 60


def test_the_more_urgent_goes_first_and_equals_in_the_order_of_their_coming() -> None:
    farm = Simulation([NODE])
    for row in (wish(1, priority=9), wish(2, priority=5), wish(3, priority=0), wish(4, priority=5)):
        farm.add(row, 10)
    farm.run(60)

    assert sorted(farm.began, key=farm.began.__getitem__) == [3, 2, 4, 1]


def test_what_was_bumped_goes_before_the_most_urgent() -> None:
    chosen = choose([wish(1, priority=0), wish(2, priority=9, bumped=True)], [NODE])

    assert rings(chosen) == [2]


def test_waiting_makes_a_job_more_urgent_so_that_nothing_starves() -> None:
    farm = Simulation([NODE], ageing_s=600)
    farm.add(wish(1, priority=9), 60)

    def keep_coming(now: Simulation) -> None:
        if now.now % 50 == 0:  # more than the node can do
            now.add(wish(10_000 + now.now, priority=0), 60)

    farm.run(3 * 3600, keep_coming)

    assert 1 in farm.began
    assert farm.began[1] <= 2 * 9 * 600
    assert level(9, 9 * 600, 600) == 0


def test_a_calm_group_is_not_starved_by_an_urgent_one() -> None:
    farm = Simulation([NODE], ageing_s=600)
    farm.add(wish(1, priority=9, group="calm"), 60)

    def keep_coming(now: Simulation) -> None:
        if now.now % 50 == 0:
            now.add(wish(10_000 + now.now, priority=0, group="urgent"), 60)

    farm.run(2 * 3600, keep_coming)

    assert farm.began[1] <= 9 * 600 + 60


def test_a_job_that_needs_a_node_to_itself_is_not_starved_by_a_stream_of_small_ones() -> None:
    node = replace(NODE, slots=4)
    farm = Simulation([node])

    def keep_coming(now: Simulation) -> None:
        if now.now % 10 == 0:
            now.add(wish(10_000 + now.now, "stream"), 60)
        if now.now == 600:
            now.add(wish(1, "whole", queue=ALONE, alone=True), 30)

    farm.run(1800, keep_coming)

    assert farm.began[1] - 600 <= 120  # the small ones that ran have ended, and no other began
    others = [at for ring, at in farm.began.items() if ring != 1]
    assert not any(farm.began[1] <= at < farm.began[1] + 30 for at in others)
    assert max(others) > farm.began[1] + 30


def test_no_more_is_announced_than_there_is_room_for() -> None:
    wishes = backlog_of("acme", 0, 10)
    node = replace(NODE, slots=4, running=1)

    assert len(choose(wishes, [node])) == 3
    assert len(choose(wishes, [node], announced=[Announced(CPU)])) == 2
    assert (
        choose(wishes, [node], announced=[Announced(ALONE, alone=True)]) != []
    )  # it waits for an empty node
    assert choose(wishes, [replace(node, running=1, alone=True)]) == []
    assert choose(wishes, []) == []


def test_a_queue_that_nobody_serves_does_not_hold_up_the_others() -> None:
    lost = [wish(n, "acme", queue="compile.sm_90") for n in range(5)]

    assert rings(choose([*lost, wish(9)], [NODE])) == [9]


def test_a_tenant_at_its_limit_waits_and_the_others_do_not() -> None:
    use = Use({"full": Share(running=2, most_running=2)})
    wishes = [wish(1, "full"), wish(2, "other", priority=9)]

    assert rings(choose(wishes, [replace(NODE, slots=8)], (), use)) == [2]


def test_work_spreads_over_the_nodes() -> None:
    seats = [replace(NODE, node="a", slots=2, running=1), replace(NODE, node="b", slots=2)]

    assert len(choose(backlog_of("acme", 0, 9), seats)) == 3


def test_a_job_waits_for_a_seat_with_its_memory_and_stands_in_nobodys_way() -> None:
    small = Seat("small", frozenset({CPU, ALONE}), slots=2, memory_bytes=4)
    large = Seat("large", frozenset({CPU, ALONE}), memory_bytes=8)
    wishes = [wish(1, memory_bytes=9), wish(2, memory_bytes=6), wish(3, memory_bytes=6), wish(4)]

    assert rings(choose(wishes, [small, large])) == [2, 4]
    assert rings(choose(wishes, [small])) == [4]
    assert rings(choose([replace(wishes[1], queue=ALONE, alone=True), wish(5)], [small])) == [5]


def test_a_job_for_some_nodes_waits_for_one_of_them_and_stands_in_nobodys_way() -> None:
    l4, other = replace(NODE, node="l4"), replace(NODE, node="4090")
    wishes = [wish(1, nodes=frozenset({"l4"})), wish(2, nodes=frozenset({"l4"})), wish(3)]

    assert rings(choose(wishes, [l4, other])) == [1, 3]
    assert rings(choose(wishes, [replace(l4, running=1), other])) == [3]
    assert rings(choose([wish(1, nodes=frozenset())], [l4, other])) == []


def test_a_ring_that_is_out_keeps_a_seat_on_a_node_that_can_answer_it() -> None:
    l4, other = replace(NODE, node="l4"), replace(NODE, node="4090")
    out = [Announced(CPU, nodes=frozenset({"l4"}))]

    assert rings(choose([wish(1, nodes=frozenset({"l4"}))], [l4, other], out)) == []
    assert rings(choose([wish(1, nodes=frozenset({"4090"}))], [l4, other], out)) == [1]
