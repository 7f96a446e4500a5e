"""What every schedule of the random machine is played with, and how its rules choose."""

from __future__ import annotations

from collections import Counter

from hypothesis.stateful import RuleBasedStateMachine

from enginefarm.spec import BuildSpec
from tasks.farm import Farm
from tests.integration.tasks.life import keeping
from tests.integration.tasks.life.choices import FIRST_SPECS, MOST_BUILDS, Spec
from tests.integration.tasks.life.schedule import Mishap
from tests.integration.tasks.life.steps import Steps
from tests.integration.tasks.life.world import PASSING, LifeNode, Work, World


class Played(RuleBasedStateMachine):
    """One schedule: its world, and which build, node or work a number means."""

    farm: Farm
    met: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.steps = Steps(World(self.farm))
        self.world = self.steps.world

    def _build(self, number: int) -> str:
        known = list(self.steps.now.builds)
        return known[number % len(known)]

    def _node(self, number: int) -> LifeNode:
        return self.world.nodes[number % len(self.world.nodes)]

    def _work(self, number: int) -> Work:
        works = [work for work in self.world.works if not work.node.dead]
        under_way = [work for work in works if not work.ended]
        some = under_way if number % 3 and under_way else works
        return some[-1 - number % min(len(some), 6)]

    def _at_work(self) -> bool:
        return any(not work.node.dead for work in self.world.works)

    def _submit(self, owner: int, spec: Spec, key: str | None, mishap: Mishap) -> None:
        scene = self.world.tenants[owner]
        body = BuildSpec.model_validate({"model": scene.model, **spec})
        self.steps.submit(scene, body, key, mishap)

    def _want_more(self) -> None:
        """Ask for another model's build when there is nothing left to do."""
        now, count = self.steps.now, len(self.steps.now.builds)
        if count < MOST_BUILDS and not now.busy:
            scene = self.world.tenants[count % 2]
            self.world.bring(scene, f"model {count}".encode())
            self._submit(count % 2, FIRST_SPECS[count % 2], None, None)
            self.steps.look()

    def _keep_later(self) -> None:
        self.world.time_passes(PASSING["a lease"])
        keeping.keep(self.steps)
