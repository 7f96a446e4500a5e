"""Any schedule of crashes, delays, repeats and cancels: nothing is lost, nothing is done twice.

Hypothesis makes up the schedules; the database and the bucket are the real ones. Here is what may
happen; ``life/laws.py`` says what must hold after each step, ``life/steps.py`` what each step must
be answered. ``pytest --hypothesis-profile deep`` runs many and longer schedules.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from functools import partial
from types import SimpleNamespace

import httpx
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from storage import ids
from tasks.farm import Farm
from tests.integration.tasks.life import ending, keeping, loops, sweeping
from tests.integration.tasks.life.choices import (
    COMMITS,
    ENDINGS,
    LOOP,
    MISHAP,
    MOST_BUILDS,
    REACHED,
    SOME,
    SPECS,
    UPLOADS,
    Spec,
)
from tests.integration.tasks.life.played import Played
from tests.integration.tasks.life.schedule import Mishap
from tests.integration.tasks.life.world import A_GRACE, PASSING, LifeNode, empty


class LifeMachine(Played):
    """What may happen to a farm."""

    @invariant()
    def the_laws_hold(self) -> None:
        self.steps.met["steps"] += 1
        self.steps.look()

    @initialize(specs=st.tuples(SPECS, SPECS), rounds=st.integers(0, 3))
    def there_are_builds(self, specs: tuple[Spec, ...], rounds: int) -> None:
        for spec in specs:
            self._submit(0, spec, None, None)
            self.steps.look()
        for _ in range(rounds):
            loops.round_of_work(self.steps, 1)
        self.world.time_passes(PASSING["a pause"])
        self.world.announce()

    @precondition(lambda self: len(self.steps.now.builds) < MOST_BUILDS)
    @rule(
        owner=st.integers(0, 1),
        spec=SPECS,
        key=st.sampled_from([None, "once", "twice"]),
        mishap=MISHAP,
    )
    def submit(self, owner: int, spec: Spec, key: str | None, mishap: Mishap) -> None:
        self._submit(owner, spec, key, mishap)

    @precondition(lambda self: self.steps.seen.keyed)
    @rule(number=SOME, mishap=MISHAP)
    def submit_again(self, number: int, mishap: Mishap) -> None:
        known = list(self.steps.seen.keyed.items())
        (tenant_id, key), (spec, _) = known[number % len(known)]
        scene = next(row for row in self.world.tenants if row.tenant_id == tenant_id)
        self.steps.submit(scene, spec, key, mishap)

    @rule(number=SOME, mishap=MISHAP)
    def cancel(self, number: int, mishap: Mishap) -> None:
        self.steps.cancel(self._build(number), mishap)

    @rule(fate=st.sampled_from(["kept", "kept", "kept", "lost", "twice"]), mishap=MISHAP)
    def announce(self, fate: str, mishap: Mishap) -> None:
        with self.steps.within(mishap):
            self.world.announce(fate)

    @precondition(lambda self: self.world.broker.heard or self.world.broker.rings)
    @rule(node=SOME, ring=SOME, mishap=MISHAP)
    def hear_a_ring(self, node: int, ring: int, mishap: Mishap) -> None:
        """Hear any ring that there ever was."""
        rings = self.world.broker.heard + self.world.broker.rings
        listener = self._node(node)
        if not listener.dead:
            self.steps.claim(listener, rings[-1 - ring % len(rings)], mishap)

    @precondition(lambda self: self._at_work())
    @rule(number=SOME, mishap=MISHAP)
    def beat(self, number: int, mishap: Mishap) -> None:
        self.steps.beat(self._work(number), mishap)

    @precondition(lambda self: self._at_work())
    @rule(number=SOME, how=UPLOADS)
    def upload(self, number: int, how: str) -> None:
        work = self._work(number)
        if not work.ended:
            self.steps.upload(work, how)

    @precondition(lambda self: self._at_work())
    @rule(number=SOME, how=ENDINGS, mishap=MISHAP)
    def finish(self, number: int, how: str, mishap: Mishap) -> None:
        self.steps.finish(self._work(number), how, mishap)

    @precondition(lambda self: self._at_work())
    @rule(number=SOME, other=SOME, how=st.sampled_from(["token", "node", "later", "earlier"]))
    def speak_for_another(self, number: int, other: int, how: str) -> None:
        self.steps.speak_for_another(self._work(number), self._node(other), how)

    @precondition(lambda self: len(self.world.living()) > 1)
    @rule(number=SOME)
    def die(self, number: int) -> None:
        living = self.world.living()
        living[number % len(living)].dead = True

    @rule(number=SOME, mishap=MISHAP)
    def enrol_again(self, number: int, mishap: Mishap) -> None:
        dead = [node for node in self.world.nodes if node.dead]
        self.steps.enrol_again(dead[0] if dead else self._node(number), mishap)

    @rule(number=SOME, mishap=MISHAP)
    def take_work(self, number: int, mishap: Mishap) -> None:
        self._want_more()
        loops.take_work(self.steps, number, mishap)

    @rule(number=SOME, upload=UPLOADS, end=ENDINGS, mishap=MISHAP)
    def do_work(self, number: int, upload: str, end: str, mishap: Mishap) -> None:
        self._want_more()
        work = loops.take_work(self.steps, number)
        if work is not None:
            self.steps.upload(work, upload)
            self.steps.finish(work, end, mishap)
            loops.turn(self.steps, "settle")

    @rule(number=SOME, draining=st.booleans(), forgets=st.booleans())
    def beat_node(self, number: int, draining: bool, forgets: bool) -> None:  # noqa: FBT001 - Hypothesis names it
        node = self._node(number)
        if not node.dead:
            self.steps.beat_node(node, draining=draining, forgets=forgets)

    @rule(how=st.sampled_from(["a pause", "a pause", *PASSING]))
    def time_passes(self, how: str) -> None:
        self.world.time_passes(PASSING[how])

    @rule(loop=LOOP, mishap=MISHAP)
    def take_a_turn(self, loop: str, mishap: Mishap) -> None:
        self._want_more()
        loops.make_due(self.steps, loop)
        loops.turn(self.steps, loop, mishap)

    @rule(loop=LOOP, at=st.integers(3, 9), whole=st.booleans())
    def be_overtaken(self, loop: str, at: int, whole: bool) -> None:  # noqa: FBT001 - Hypothesis names it
        self._want_more()
        loops.make_due(self.steps, loop)
        loops.turn_meanwhile(self.steps, loop, at, partial(loops.overtake, self.steps, whole=whole))

    @rule(loop=st.sampled_from(["settle", "settle", "publish", "reconcile"]), commits=COMMITS)
    def die_after_commit(self, loop: str, commits: int) -> None:
        self._want_more()
        loops.make_due(self.steps, loop)
        loops.die_after_commit(self.steps, loop, commits)

    @rule(at=st.integers(5, 7))
    def settle_late(self, at: int) -> None:
        self._want_more()
        loops.settle_late(self.steps, at)

    @rule(at=st.integers(4, 14))
    def be_followed(self, at: int) -> None:
        self._want_more()
        loops.make_due(self.steps, "publish")
        loops.be_followed(self.steps, at)

    @rule(rounds=st.integers(2, 3), late=st.sampled_from([True, True, False]), mishap=MISHAP)
    def sweep(self, rounds: int, late: bool, mishap: Mishap) -> None:  # noqa: FBT001 - Hypothesis names it
        """Sweep while an attempt has uploaded what it made and has not ended."""
        self._want_more()
        loops.upload_and_stand_still(self.steps)
        for number in range(rounds):
            if late:
                self.world.time_passes(A_GRACE)
            with self.steps.within(mishap if number == 0 else None):
                sweeping.sweep(self.steps)

    @rule(loop=LOOP, at=st.integers(3, 14))
    def be_swept_meanwhile(self, loop: str, at: int) -> None:
        self._want_more()
        loops.make_due(self.steps, loop)
        loops.turn_meanwhile(self.steps, loop, at, partial(sweeping.sweep, self.steps))

    @rule(how=st.sampled_from(["a lease", "a window", "a pause"]), mishap=MISHAP)
    def keep(self, how: str, mishap: Mishap) -> None:
        """Remove what is no longer kept; whoever does so may die at it."""
        self.world.time_passes(PASSING[how])
        with self.steps.within(mishap):
            keeping.keep(self.steps)
        keeping.keep_all(self.steps)

    @rule(owner=st.integers(0, 1), spec=SPECS, at=st.integers(1, 30))
    def be_asked_while_removing(self, owner: int, spec: Spec, at: int) -> None:
        """Come with a build when a rule has looked at its model and not removed it yet."""
        if len(self.steps.now.builds) < MOST_BUILDS:
            self.world.time_passes(PASSING["a window"])
            with self.world.trap.meanwhile(at, partial(self._submit, owner, spec, None, None)):
                keeping.keep(self.steps)

    @rule(loop=LOOP, at=st.integers(3, 14))
    def be_kept_meanwhile(self, loop: str, at: int) -> None:
        self._want_more()
        loops.make_due(self.steps, loop)
        loops.turn_meanwhile(self.steps, loop, at, self._keep_later)

    @rule(loop=LOOP, at=st.integers(3, 9), number=SOME)
    def be_cancelled_meanwhile(self, loop: str, at: int, number: int) -> None:
        build_id = loops.make_due(self.steps, loop) or self._build(number)
        loops.turn_meanwhile(self.steps, loop, at, partial(self.steps.cancel, build_id, None))

    @rule(
        what=st.sampled_from(["bump", "newcomer", "rings lost", "engine lost", "twice"]),
        number=SOME,
    )
    def be_odd(self, what: str, number: int) -> None:
        if what == "bump":
            self.steps.bump(self._build(number))
        elif what == "newcomer":
            self.world.newcomer("node-l", "sm_90")
        elif what == "rings lost":
            loops.hear_again(self.steps)
        elif what == "twice":
            self.steps.do_work_twice(number)
        else:
            self.steps.lose_an_engine(number)

    @rule()
    def work_goes_on(self) -> None:
        loops.round_of_work(self.steps, 1)

    def teardown(self) -> None:
        if sys.exception() is None:  # else what broke is told, not what follows from it
            ending.to_the_end(self.steps)
            self.met.update(loops.what_happened(self.steps.now), schedules=1)
            self.met.update(self.steps.met)


def _settings() -> settings:
    if settings.get_current_profile_name() == "deep":
        return settings()
    return settings(
        max_examples=8,
        stateful_step_count=35,
        derandomize=True,
        phases=[Phase.generate],  # the deep profile makes what it finds smaller; that takes minutes
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def test_nothing_is_lost_and_nothing_done_twice_whatever_happens(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Names sort by the millisecond; here each has one of its own, so that a schedule repeats.
    moments = iter(range(time.time_ns(), 1 << 63, 1_000_000))
    monkeypatch.setattr(ids, "time", SimpleNamespace(time_ns=lambda: next(moments)))

    class Machine(LifeMachine):
        def __init__(self) -> None:
            empty(farm)
            super().__init__()

    Machine.farm, Machine.met = farm, Counter()
    with httpx.Client() as LifeNode.http:
        run_state_machine_as_test(Machine, settings=_settings())
    told = dict(sorted(Machine.met.items()))
    print(told)  # noqa: T201 - shown with -s, and when it fails
    assert not REACHED - Machine.met.keys()
