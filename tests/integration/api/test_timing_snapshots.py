"""Which snapshots of a timing cache stay, and which one a claim that is repeated is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from enginefarm.state import Scope
from storage import timing_caches
from tests.integration.api.served import Served
from tests.integration.api.timing import GpuNode, claimed, compiling
from tests.integration.tasks.scene import Scene
from tests.timing_sets import packed
from workers.timing import ChildTiming


@pytest.fixture
def scene(api: Served) -> Scene:
    return Scene.on(api.farm)


@pytest.fixture
def node(api: Served) -> GpuNode:
    return GpuNode(api.farm, "gpu-0")


def left(path: Path) -> ChildTiming:
    return ChildTiming(path=path, entries=1)


def test_of_quarantined_snapshots_the_newest_stay_and_none_comes_back(
    api: Served, scene: Scene, node: GpuNode, tmp_path: Path
) -> None:
    road = (building := claimed(api, node, compiling(scene, node), tmp_path / "a")).road
    base, bad = building.given.generation, tmp_path / "spoilt"
    for number in range(timing_caches.MOST_KEPT + 2):
        bad.write_bytes(packed(f"poison-{number}"))
        reply = road.merge(road.send(bad), base, left(bad))
        assert reply.taken
        assert reply.now.newest is not None
        base = road.refuse(reply.now.newest.digest, "it crashed").now.generation
    bad.write_bytes(packed("poison-0"))
    assert road.merge(road.send(bad), base, left(bad)).why == "this very snapshot is quarantined"
    with api.client(Scope.READ) as client:
        whole = client.get(f"/v1/timing-caches/{building.given.namespace}").json()
    states = [row["state"] for row in whole["snapshots"]]
    assert states == ["quarantined"] * timing_caches.MOST_KEPT + ["removed"] * 2


def test_a_claim_that_is_repeated_is_given_the_newest_snapshot_again(
    api: Served, scene: Scene, node: GpuNode, tmp_path: Path
) -> None:
    job, mine = compiling(scene, node), "c" * 43
    first = node.ask(job, mine).assignment
    claimed(api, node, compiling(scene, node, 1), tmp_path / "a").build("one")
    again = node.ask(job, mine).assignment
    assert first is not None
    assert again is not None
    assert first.timing_cache is not None
    assert again.timing_cache is not None
    assert (first.timing_cache.newest, again.timing_cache.generation) == (None, 1)
    with api.farm.database.transaction() as session:
        use = timing_caches.use_of(session, job.id, job.attempt)
    assert use is not None
    assert again.timing_cache.newest is not None
    assert use.digest == again.timing_cache.newest.digest
