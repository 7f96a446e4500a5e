"""A round through the rules of retention, and what is left after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from enginefarm.state import Stage
from storage import blobs
from storage.retention import Rule, Terms
from tasks.farm import Farm
from tasks.keeping import Keeper
from tasks.sweep import Sweeper
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import Scene

DAY = 86_400.0
ALL = Terms(dict.fromkeys(Rule, 30.0))


def keep(farm: Farm, terms: Terms = ALL) -> None:
    """Go once through all the rules."""
    keeper = Keeper(farm, terms)
    for _ in range(1000):
        keeper.turn()
        if keeper.rounds:
            return
    pytest.fail("the round does not end")


def sweep(farm: Farm) -> None:
    hasty = replace(farm, policy=replace(farm.policy, garbage_grace_s=-1.0, sweep_every_s=0.0))
    sweeper = Sweeper(hasty)
    while not sweeper.rounds:
        sweeper.turn()


def published(scene: Scene, node: FakeNode, **fields: object) -> str:
    build_id = scene.accept(scene.spec(**fields)).build.id
    scene.run(node, build_id)
    scene.publish()
    return build_id


def outputs(scene: Scene, build_id: str, stage: Stage = Stage.COMPILE) -> list[str]:
    result = scene.job(build_id, stage).result or {}
    return [file["digest"] for file in result["outputs"]]


def has(scene: Scene, digest: str) -> bool:
    """Tell whether the tenant's right to bytes is there, and the bytes are."""
    with scene.farm.database.transaction() as session:
        row = blobs.find(session, scene.tenant_id, digest)
    return row is not None and scene.bucket.head(digest) is not None
