"""Timing caches over the real API, database and bucket: no entry is lost, whoever comes at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from enginefarm.compile_options import TimingReuse
from enginefarm.state import Scope, Stage
from storage import timing_caches
from storage.database import Session
from storage.models import TimingCache
from tests.integration.api.served import Served
from tests.integration.api.timing import (
    TARGET,
    Building,
    GpuNode,
    claimed,
    compiling,
    lost,
)
from tests.integration.tasks.fake_node import FakeNode, backend
from tests.integration.tasks.scene import Scene
from tests.timing_sets import names_in, packed
from workers.timing import ChildTiming

NODES = 8


@pytest.fixture
def scene(api: Served) -> Scene:
    return Scene.on(api.farm)


@pytest.fixture
def node(api: Served) -> GpuNode:
    return GpuNode(api.farm, "gpu-0")


def kept(api: Served, building: Building) -> set[str]:
    """Return what the newest snapshot of a build's namespace holds."""
    with api.farm.database.transaction() as session:
        tenants = session.query(TimingCache).filter_by(namespace=building.given.namespace)
        row = timing_caches.given(session, tenants.one())
        assert row is not None
        digest = row.digest
    return names_in(api.farm.objects.read(digest, 1 << 20))


def race(api: Served, scene: Scene, node: GpuNode, folder: Path) -> set[str]:
    """Let many nodes end their builds at once; return which timings were lost."""
    ready = [compiling(scene, node, number) for number in range(NODES)]
    nodes = [GpuNode(api.farm, f"gpu-{number + 1}") for number in range(NODES)]
    builds = [
        claimed(api, row, job, folder / row.name) for row, job in zip(nodes, ready, strict=True)
    ]
    timed = [[f"shared-{number % 3}", f"of-{number}"] for number in range(NODES)]
    with ThreadPoolExecutor(NODES) as pool:
        said = list(pool.map(lambda pair: pair[0].build(*pair[1]), zip(builds, timed, strict=True)))
    assert all(word.startswith(("kept", "nothing is new")) for word in said), said
    return lost(kept(api, builds[0]), (name for names in timed for name in names))


def test_no_timing_is_lost_however_many_builds_end_at_once(
    api: Served, scene: Scene, node: GpuNode, tmp_path: Path
) -> None:
    assert race(api, scene, node, tmp_path) == set()
    with api.client(Scope.READ) as client:
        (row,) = client.get("/v1/timing-caches").json()
        whole = client.get(f"/v1/timing-caches/{row['namespace']}").json()
    assert (row["gpu"], row["builds"]) == ("NVIDIA L4", NODES)
    numbers = [each["generation"] for each in whole["snapshots"]]
    assert numbers == list(range(row["generation"], 0, -1))
    states = [each["state"] for each in whole["snapshots"]]
    assert states.count("kept") <= timing_caches.MOST_KEPT


def test_a_farm_that_does_not_compare_loses_timings_and_this_suite_sees_it(
    api: Served,
    scene: Scene,
    node: GpuNode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = timing_caches.advance

    def careless(session: Session, cache: TimingCache, base: int, made: timing_caches.Made) -> bool:
        del base  # what everybody does who reads, merges and writes without a lock
        return honest(session, cache, cache.generation, made)

    monkeypatch.setattr(timing_caches, "advance", careless)
    assert race(api, scene, node, tmp_path)


def test_the_next_build_begins_with_what_the_last_left_and_its_engine_names_it(
    api: Served, scene: Scene, node: GpuNode, tmp_path: Path
) -> None:
    first = claimed(api, node, compiling(scene, node), tmp_path / "a")
    assert first.given.newest is None
    assert first.build("one").startswith("kept")
    job = compiling(scene, node, 1)
    second = claimed(api, node, job, tmp_path / "b")
    assert second.given.newest is not None
    assert kept(api, second) == {"one"}
    assert second.build() == "nothing is new in it"
    node.tell(second.road.work, node.done(second.road.work))
    scene.settle()
    scene.publish()
    result = scene.job(job.build_id, Stage.PUBLISH, TARGET).result or {}
    definition: Any = scene.verified(result["artifact"]).statement.build_definition
    named = {row.get("name"): row.get("digest") for row in definition["resolvedDependencies"]}
    assert named["timing.cache"] == {"sha256": second.given.newest.digest.removeprefix("sha256:")}


OTHERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"gpu": "NVIDIA L40S"}, {}),
    ({"cuda": "12"}, {}),
    ({"version": "11.4.0.107"}, {}),
    ({}, {"tf32": False}),
]


@pytest.mark.parametrize(("of_node", "options"), OTHERS, ids=["GPU", "CUDA", "version", "option"])
def test_another_gpu_cuda_version_or_option_is_another_cache(
    api: Served,
    scene: Scene,
    node: GpuNode,
    tmp_path: Path,
    of_node: dict[str, Any],
    options: dict[str, Any],
) -> None:
    first = claimed(api, node, compiling(scene, node), tmp_path / "a")
    first.build("one")
    other = GpuNode(api.farm, "gpu-1", **of_node)
    second = claimed(api, other, compiling(scene, other, 1, **options), tmp_path / "b")
    assert second.given.namespace != first.given.namespace
    assert second.given.newest is None


def test_a_cache_is_code_and_never_another_tenants(
    api: Served, scene: Scene, node: GpuNode, tmp_path: Path
) -> None:
    first = claimed(api, node, compiling(scene, node), tmp_path / "a")
    first.build("one")
    rival = Scene.on(api.farm, "rival")
    second = claimed(api, node, compiling(rival, node), tmp_path / "b")
    assert second.given.namespace == first.given.namespace
    assert second.given.newest is None
    second.build("two")
    assert kept_of(api, "acme") == {"one"}
    assert kept_of(api, "rival") == {"two"}
    with api.client(Scope.SUBMIT, tenant="stranger") as client:
        assert client.get("/v1/timing-caches").json() == []
        path = f"/v1/timing-caches/{first.given.namespace}"
        assert client.get(path).status_code == 404
        assert client.post(f"{path}/drop").status_code == 404


def kept_of(api: Served, tenant: str) -> set[str]:
    with api.farm.database.transaction() as session:
        (cache,) = timing_caches.listed(session, api.tenant(tenant))
        row = timing_caches.given(session, cache)
        assert row is not None
        digest = row.digest
    return names_in(api.farm.objects.read(digest, 1 << 20))


SPOILT = {"noise": b"\0" * 100, "another version": packed("old", version="10.13.3.9")}


@pytest.mark.parametrize("kind", SPOILT)
def test_what_a_runtime_does_not_take_is_put_away_and_the_one_before_serves(
    api: Served, scene: Scene, node: GpuNode, tmp_path: Path, kind: str
) -> None:
    claimed(api, node, compiling(scene, node), tmp_path / "a").build("one")
    bad = claimed(api, node, compiling(scene, node, 1), tmp_path / "b")
    path = tmp_path / "spoilt"
    path.write_bytes(SPOILT[kind])
    taken = bad.road.merge(bad.road.send(path), bad.given.generation, left(path))
    assert taken.taken

    victim = claimed(api, node, compiling(scene, node, 2), tmp_path / "c")
    assert victim.given.newest is not None
    assert taken.now.newest is not None
    assert victim.given.newest.digest == taken.now.newest.digest
    assert victim.build("two").startswith("kept")
    assert len(victim.road.refused) == 1
    assert kept(api, victim) == {"one", "two"}
    after = claimed(api, node, compiling(scene, node, 3), tmp_path / "d")
    assert after.build("three").startswith("kept")
    assert after.road.refused == []
    with api.client(Scope.READ) as client:
        whole = client.get(f"/v1/timing-caches/{after.given.namespace}").json()
    states = {row["digest"]: (row["state"], row["why"]) for row in whole["snapshots"]}
    assert states[victim.road.refused[0]] == ("quarantined", "timing cache header mismatch")


def left(path: Path) -> ChildTiming:
    return ChildTiming(path=path, entries=1)


def test_a_snapshot_that_is_held_serves_every_build_until_it_is_let_go(
    api: Served, scene: Scene, node: GpuNode, tmp_path: Path
) -> None:
    first = claimed(api, node, compiling(scene, node), tmp_path / "a")
    first.build("one")
    path = f"/v1/timing-caches/{first.given.namespace}"
    claimed(api, node, compiling(scene, node, 1), tmp_path / "b").build("two")
    with api.client(Scope.SUBMIT) as client:
        assert client.post(f"{path}/pin", json={"generation": 9}).json()["code"] == (
            "timing_snapshot_missing"
        )
        assert client.post(f"{path}/pin", json={"generation": 1}).json()["pinned"] == 1
        held = claimed(api, node, compiling(scene, node, 2), tmp_path / "c")
        assert held.build("three") == "the namespace is pinned"
        assert kept(api, held) == {"one"}
        assert client.post(f"{path}/pin", json={"generation": None}).json()["pinned"] is None
    free = claimed(api, node, compiling(scene, node, 3), tmp_path / "d")
    free.build("four")
    assert kept(api, free) == {"one", "two", "four"}


def test_what_was_dropped_does_not_come_back_with_a_build_that_was_under_way(
    api: Served, scene: Scene, node: GpuNode, tmp_path: Path
) -> None:
    first = claimed(api, node, compiling(scene, node), tmp_path / "a")
    first.build("one")
    under_way = claimed(api, node, compiling(scene, node, 1), tmp_path / "b")
    with api.client(Scope.SUBMIT) as client:
        assert client.post(f"/v1/timing-caches/{first.given.namespace}/drop").status_code == 200
    assert under_way.build("two") == "the namespace was dropped meanwhile"
    fresh = claimed(api, node, compiling(scene, node, 2), tmp_path / "c")
    assert fresh.given.newest is None
    fresh.build("three")
    assert kept(api, fresh) == {"three"}


def test_a_build_that_must_time_nothing_is_told_so_and_offers_nothing(
    api: Served, scene: Scene, node: GpuNode, tmp_path: Path
) -> None:
    claimed(api, node, compiling(scene, node), tmp_path / "a").build("one")
    strict = claimed(api, node, compiling(scene, node, timing_cache="required"), tmp_path / "b")
    assert strict.given.reuse is TimingReuse.REQUIRED
    assert strict.given.newest is not None
    assert strict.build("two") == "nothing was timed"
    path = tmp_path / "not for itself"
    path.write_bytes(packed("one", "two"))
    reply = strict.road.merge(strict.road.send(path), strict.given.generation, left(path))
    assert (reply.taken, reply.over) == (False, True)
    assert reply.why == "a build that must time nothing offers nothing"
    assert kept(api, strict) == {"one"}


def test_nobody_offers_for_an_attempt_that_is_not_its_own_or_what_was_never_sent(
    api: Served, scene: Scene, node: GpuNode, tmp_path: Path
) -> None:
    first = claimed(api, node, compiling(scene, node), tmp_path / "a")
    path = tmp_path / "c"
    path.write_bytes(packed("one"))
    file = first.road.send(path)
    other = file.model_copy(update={"digest": "sha256:" + "0" * 64})
    message = {"base": 0, "digest": other.digest, "size": other.size, "entries": 1}
    assert first.road.post("timing-cache", **message).json()["code"] == "timing_cache_unasked"
    refusal = {"digest": other.digest, "why": "a whim"}
    answer = first.road.post("timing-cache/refusals", **refusal)
    assert answer.json()["code"] == "timing_cache_unasked"
    message = {"base": 0, "digest": file.digest, "size": file.size, "entries": 1}
    told = {"attempt": 1, "lease_token": first.road.work.lease_token, **message}
    url = f"/worker/v1/jobs/{first.road.work.job_id}/timing-cache"
    with api.with_text(GpuNode(api.farm, "gpu-9").credential) as stranger:
        assert stranger.post(url, json=told).json()["code"] == "lease_lost"


@pytest.mark.parametrize(
    ("of_node", "options"), [({"cuda": None}, {}), ({}, {"timing_cache": "off"})]
)
def test_where_something_is_not_certain_or_nothing_is_wanted_there_is_no_cache(
    api: Served, scene: Scene, of_node: dict[str, Any], options: dict[str, Any]
) -> None:
    node = GpuNode(api.farm, "gpu-1", **of_node)
    assert node.take(compiling(scene, node, **options)).timing_cache is None


def test_a_backend_that_times_nothing_is_given_none(scene: Scene, node: GpuNode) -> None:
    rtx = FakeNode(
        scene.farm, "rtx", backends=[backend("1.7.1", name="tensorrt-rtx", arch="sm_89")]
    )
    target = "tensorrt-rtx@sm_89"
    build_id = scene.submit(target, options={"repair": {"mode": "none"}})
    scene.do(rtx, build_id, Stage.CHECK, target)
    assert rtx.take(scene.job(build_id, Stage.COMPILE, target)).timing_cache is None
