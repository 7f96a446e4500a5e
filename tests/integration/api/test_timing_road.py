"""The way of timing caches from end to end: real API, database, bucket, executors and children.

Only the runtime in the child is a stand-in. Each child times kernels through the port to TensorRT,
and the executor's own road takes what it leaves to the farm.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from enginefarm.errors import JobFailed
from enginefarm.state import Blame, JobState, Scope, Stage
from storage import timing_caches
from storage.models import Job
from tasks.messages import Device
from tests.contract.backends.trt_api.timing_runtime import CRASHES, cache_of, model_of, tactics_in
from tests.integration.api.served import Served
from tests.integration.api.timing import GPU, TARGET, GpuNode, claimed
from tests.integration.tasks.scene import Scene, add_model
from tests.timing_sets import VERSION
from workers import executor, offering, sandbox
from workers.executor import Workshop
from workers.farm_api import WorkerApi
from workers.timing import ChildTiming

CHILD = "tests.integration.api.timing_child"
ALONE = {"refused": None, "kept_back": None}


@pytest.fixture
def scene(api: Served) -> Scene:
    return Scene.on(api.farm)


@pytest.fixture(autouse=True)
def _timing_children(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sandbox.child_command

    def command(scratch: Path) -> list[str]:
        return [CHILD if part == "workers.child" else part for part in real(scratch)]

    assert "workers.child" in real(Path())
    monkeypatch.setattr(sandbox, "child_command", command)


def compiling(scene: Scene, node: GpuNode, *kernels: str, **options: object) -> Job:
    """Submit a model that needs these kernels, and bring it to its compile stage."""
    model = add_model(scene.farm, scene.tenant_id, model_of(*kernels))
    body = {"compile": options, "repair": {"mode": "none"}}
    build_id = scene.submit(TARGET, model=model, options=body)
    scene.do(node, build_id, Stage.CHECK, TARGET)
    return scene.job(build_id, Stage.COMPILE, TARGET)


def carry_out(api: Served, node: GpuNode, job: Job, folder: Path) -> str:
    """Let a node's executor do a job, with a child of its own."""
    assert node.credential is not None
    worker = WorkerApi(api.url, node.credential)
    device = Device(arch="sm_89", name=GPU)
    shop = Workshop(worker, folder / f"{node.name}-{job.id}", [device], 1 << 20)
    try:
        return executor.attempt(shop, job.id, job.attempt)
    finally:
        worker.close()


def kept(api: Served) -> dict[str, str]:
    """Return what the newest snapshot of the one namespace holds."""
    with api.farm.database.transaction() as session:
        (cache,) = timing_caches.listed(session, api.tenant())
        row = timing_caches.given(session, cache)
        assert row is not None
        digest = row.digest
    return tactics_in(api.farm.objects.read(digest, 1 << 20))


def snapshots(api: Served) -> list[dict[str, Any]]:
    with api.client(Scope.READ) as client:
        (row,) = client.get("/v1/timing-caches").json()
        found: list[dict[str, Any]] = client.get(f"/v1/timing-caches/{row['namespace']}").json()[
            "snapshots"
        ]
    return found


def log_of(api: Served, scene: Scene, job: Job) -> str:
    digest = scene.attempts(job)[-1].log_digest
    assert digest is not None
    return api.farm.objects.read(digest, 1 << 20).decode()


def tactics_of(api: Served, scene: Scene, job: Job) -> dict[str, str]:
    """Return the tactics that an engine was built with; the stand-in's plans end with them."""
    (engine,) = (scene.job(job.build_id, Stage.COMPILE, TARGET).result or {})["outputs"]
    told = api.farm.objects.read(engine["digest"], 1 << 20).rpartition(b"engine")[2]
    found: dict[str, str] = json.loads(told)
    return found


def all_at_once(
    api: Served, nodes: list[GpuNode], ready: list[Job], folder: Path, step: str
) -> list[str]:
    """Let each node do its job, and meet all the others at a step before it goes on."""
    together = Barrier(len(nodes), timeout=60)
    with pytest.MonkeyPatch.context() as patched, ThreadPoolExecutor(len(nodes)) as pool:
        patched.setattr(executor, "reach", lambda name: together.wait() if name == step else None)
        return list(pool.map(lambda node, job: carry_out(api, node, job, folder), nodes, ready))


def test_builds_that_end_at_once_lose_no_timing_and_the_next_begins_with_all_of_them(
    api: Served, scene: Scene, tmp_path: Path
) -> None:
    nodes = [GpuNode(api.farm, f"gpu-{number}") for number in range(3)]
    ready = [compiling(scene, node, "shared", f"of-{n}") for n, node in enumerate(nodes)]
    # Each has built with an empty cache before the first of them offers its own.
    ended = all_at_once(api, nodes, ready, tmp_path, "node.child_ended")
    assert ended == ["succeeded"] * 3
    scene.settle()
    tactics = kept(api)
    assert set(tactics) == {"shared", "of-0", "of-1", "of-2"}
    # Two found that another had been first, and merged with it: each generation rests on the last.
    assert [(row["generation"], row["entries"]) for row in snapshots(api)] == [
        (3, 4),
        (2, 3),
        (1, 2),
    ]
    for n, job in enumerate(ready):
        assert tactics_of(api, scene, job)[f"of-{n}"] == tactics[f"of-{n}"]

    last = compiling(scene, nodes[0], "of-2", "shared")
    assert carry_out(api, nodes[0], last, tmp_path) == "succeeded"
    scene.settle()
    assert tactics_of(api, scene, last) == {name: tactics[name] for name in ("of-2", "shared")}
    assert "timing cache: nothing is new in it, 2 entries served the build" in log_of(
        api, scene, last
    )
    scene.publish()
    result = scene.job(last.build_id, Stage.PUBLISH, TARGET).result or {}
    definition: Any = scene.verified(result["artifact"]).statement.build_definition
    named = {row.get("name"): row.get("digest") for row in definition["resolvedDependencies"]}
    newest = snapshots(api)[0]["digest"]
    told = (scene.job(last.build_id, Stage.COMPILE, TARGET).result or {})["facts"]["compile"]
    assert told["timings"] == ALONE | {"begun_with": True, "hits": 2}
    assert named["timing.cache"] == {"sha256": newest.removeprefix("sha256:")}


SPOILT = {"noise": b"\0" * 100, "of another version": cache_of("10.13.3.9", {"old": "0"})}


@pytest.mark.parametrize(
    "kind", [pytest.param("noise", marks=pytest.mark.soak), "of another version"]
)
def test_a_snapshot_that_the_runtime_does_not_take_is_put_away_and_the_one_before_serves(
    api: Served, scene: Scene, tmp_path: Path, kind: str
) -> None:
    node = GpuNode(api.farm, "gpu-0")
    offered(api, scene, node, tmp_path / "a", cache_of(VERSION, {"one": "good"}))
    spoilt = offered(api, scene, node, tmp_path / "b", SPOILT[kind])
    victim = compiling(scene, node, "one", "two")
    assert carry_out(api, node, victim, tmp_path) == "succeeded"
    # It timed both itself, and of an entry that both have its own stays in the merged one.
    scene.settle()
    assert kept(api) == tactics_of(api, scene, victim)
    states = {row["digest"]: row["state"] for row in snapshots(api)}
    assert states[spoilt] == "quarantined"
    assert sorted(states.values()) == ["kept", "kept", "quarantined"]
    assert "the snapshot was refused" in log_of(api, scene, victim)


def test_a_snapshot_that_the_runtime_crashes_on_fails_one_attempt_and_is_put_away(
    api: Served, scene: Scene, tmp_path: Path
) -> None:
    node = GpuNode(api.farm, "gpu-0")
    offered(api, scene, node, tmp_path / "a", cache_of(VERSION, {"one": "good"}))
    spoilt = offered(api, scene, node, tmp_path / "b", cache_of(VERSION, {CRASHES: "0"}))
    victim = compiling(scene, node, "one", "two")
    assert carry_out(api, node, victim, tmp_path) == "failed"
    (first,) = scene.attempts(victim)
    assert (first.failure or {})["code"] == "child_crashed"
    again = scene.job(victim.build_id, Stage.COMPILE, TARGET)
    assert carry_out(api, node, again, tmp_path) == "succeeded"
    scene.settle()
    # Merging crashed on it as well, and so nobody gets it any more; the one before was merged.
    assert {row["digest"]: row["state"] for row in snapshots(api)}[spoilt] == "quarantined"
    assert kept(api) == tactics_of(api, scene, victim)
    assert "begins without" in log_of(api, scene, victim)


def offered(api: Served, scene: Scene, node: GpuNode, folder: Path, data: bytes) -> str:
    """Let a node offer these bytes as a build's cache; return their digest."""
    building = claimed(api, node, compiling(scene, node, folder.name), folder)
    path = folder / "cache"
    path.write_bytes(data)
    file = building.road.send(path)
    left = ChildTiming(path=path, entries=1)
    assert building.road.merge(file, building.given.generation, left).taken
    return file.digest


def test_a_build_that_may_time_nothing_is_built_from_the_cache_or_fails_for_the_person(
    api: Served, scene: Scene, tmp_path: Path
) -> None:
    node = GpuNode(api.farm, "gpu-0")
    none = compiling(scene, node, "one", timing_cache="required")
    assert carry_out(api, node, none, tmp_path) == "failed"
    assert scene.failure(none).code == "timing_cache_missing"
    offered(api, scene, node, tmp_path / "a", cache_of(VERSION, {"one": "good"}))
    known = compiling(scene, node, "one", timing_cache="required")
    assert carry_out(api, node, known, tmp_path) == "succeeded"
    scene.settle()
    assert tactics_of(api, scene, known) == {"one": "good"}
    lacking = compiling(scene, node, "one", "two", timing_cache="required")
    assert carry_out(api, node, lacking, tmp_path) == "failed"
    failure = scene.failure(lacking)
    assert (failure.code, failure.blame) == ("timing_cache_miss", Blame.PERSON)
    assert scene.job(lacking.build_id, Stage.COMPILE, TARGET).state is JobState.FAILED
    assert kept(api) == {"one": "good"}


def test_a_snapshot_that_did_not_come_is_not_signed_as_what_an_engine_was_built_with(
    api: Served, scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise JobFailed("It did not come.", blame=Blame.FARM, code="bucket_away")

    node = GpuNode(api.farm, "gpu-0")
    held = offered(api, scene, node, tmp_path / "a", cache_of(VERSION, {"one": "good"}))
    job = compiling(scene, node, "one")
    with monkeypatch.context() as patched:
        patched.setattr(offering, "fetch_snapshot", away)
        assert carry_out(api, node, job, tmp_path) == "succeeded"
    scene.settle()
    scene.publish()
    result = scene.job(job.build_id, Stage.PUBLISH, TARGET).result or {}
    definition: Any = scene.verified(result["artifact"]).statement.build_definition
    assert "timing.cache" not in {row.get("name") for row in definition["resolvedDependencies"]}
    told = (scene.job(job.build_id, Stage.COMPILE, TARGET).result or {})["facts"]["compile"]
    assert told["timings"] == ALONE | {"begun_with": False, "hits": 0}
    assert {row["digest"]: row["state"] for row in snapshots(api)} == {held: "kept"}


def test_a_snapshot_that_is_gone_from_the_bucket_is_in_nobodys_way_for_ever(
    api: Served, scene: Scene, tmp_path: Path
) -> None:
    node = GpuNode(api.farm, "gpu-0")
    gone = offered(api, scene, node, tmp_path / "a", cache_of(VERSION, {"one": "good"}))
    api.farm.objects.remove(gone)
    # One that may time nothing has no part in it, and is tried again.
    strict = compiling(scene, node, "one", "two", timing_cache="required")
    assert carry_out(api, node, strict, tmp_path) == "failed"
    (attempt,) = scene.attempts(strict)
    assert (attempt.failure or {})["code"] == "input_unavailable"
    assert scene.job(strict.build_id, Stage.COMPILE, TARGET).state is JobState.QUEUED
    job = compiling(scene, node, "one")
    assert carry_out(api, node, job, tmp_path) == "succeeded"
    scene.settle()
    assert {row["digest"]: row["state"] for row in snapshots(api)}[gone] == "quarantined"
    assert kept(api) == tactics_of(api, scene, job)
