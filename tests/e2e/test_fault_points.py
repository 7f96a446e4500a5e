"""Whatever process dies, at whichever step: every accepted build ends well, and is published once.

One farm whose processes are started again when they end. A step is armed by a file; the first
process to reach it kills itself there. Some steps share a build, since each costs its whole life.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import psutil
import pytest

from localfarm.folder import Folder
from tasks.fault_points import POINTS
from tests.e2e.builds import (
    LONG,
    ONCE,
    QUICK,
    count_rows,
    ended,
    model_of,
    persistently,
    published,
    submit,
)
from tests.e2e.conftest import RunningFarm, started_farm, wait_until
from tests.e2e.sending import Sending

pytestmark = pytest.mark.e2e
TOGETHER = [
    ["submit.written", "dispatch.sent", "claim.written"],
    ["submit.committed", "dispatch.committed", "claim.committed"],
    ["node.heard", "uploads.given", "settle.proved"],
    ["node.claimed", "beat.committed", "settle.written"],
    ["node.fetched", "finish.written", "settle.committed"],
    ["child.began", "finish.committed", "publish.taken"],
    ["child.made", "publish.stored", "publish.written"],
    ["node.child_ended", "sent.read", "publish.signed"],
    ["node.stored", "publish.committed"],
    ["node.finished", "reconcile.written"],
]
QUICK_STEPS = {"submit.written", "node.claimed", "child.made", "node.finished"}
"""The first steps of those that `make test` arms: each kind of process dies once."""
DEATHS = [
    pytest.param(steps, marks=[] if steps[0] in QUICK_STEPS else [pytest.mark.soak])
    for steps in TOGETHER
]
KEPT_ONCE = {"models": 1, "other bytes": 0, "left": []}
CANCELS = ["cancel.written", "cancel.committed"]
SEARCHES = ["search.written"]
SENDING = ["upload.declared", "upload.begun", "upload.stored", "upload.cancelled"]
VERIFYING = [
    "upload.completed",
    "verify.claimed",
    "verify.joined",
    "verify.copied",
    "verify.written",
    "verify.committed",
    "verify.cleared",
]
PARTS = [
    # Each part once; alone they take as long again, and are for the soak tests.
    *[("postgres", "workers"), ("valkey", "tasks"), ("seaweedfs", "api")],
    *(
        pytest.param((name,), marks=pytest.mark.soak)
        for name in ("valkey", "postgres", "seaweedfs", "api", "tasks", "workers")
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("armed")


@pytest.fixture(scope="module")
def farm(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFarm]:
    """Start a farm that tends its processes and honours the armed steps."""
    place = tmp_path_factory.mktemp("faults")
    settings = {"ENGINEFARM_LOCAL_RESTARTS": "1000", "ENGINEFARM_LOCAL_FAULT_DIR": str(folder)}
    with started_farm(place, **settings) as running:
        yield running


def test_every_step_is_in_the_matrix() -> None:
    assert sorted([*chain(*TOGETHER), *CANCELS, *SEARCHES, *SENDING, *VERIFYING]) == sorted(POINTS)


@pytest.mark.parametrize("points", DEATHS, ids="+".join)
def test_a_death_at_a_step_loses_nothing_and_makes_nothing_twice(
    farm: RunningFarm, folder: Path, points: list[str]
) -> None:
    model = model_of(farm)
    for point in points:
        (folder / point).touch()
    build = submit(farm, model, LONG if "beat.committed" in points else QUICK)
    if "reconcile.written" in points:
        wait_until("the first attempt", 60, lambda: has_begun(farm, build))
        kill(farm, "workers")  # only then is there something to repair

    assert published(farm, build) == ONCE
    assert [point for point in points if (folder / point).exists()] == []


@pytest.mark.parametrize("point", CANCELS)
def test_a_death_while_cancelling_leaves_a_build_that_is_cancelled(
    farm: RunningFarm, folder: Path, point: str
) -> None:
    build = submit(farm, model_of(farm))
    (folder / point).touch()
    persistently(farm, lambda http: http.post(f"/v1/builds/{build}/cancel"))

    assert ended(farm, build)["state"] == "cancelled"
    assert not (folder / point).exists()


@pytest.mark.soak
def test_a_death_in_a_step_of_a_search_makes_no_candidate_twice(
    farm: RunningFarm, folder: Path
) -> None:
    build = {"model": model_of(farm), "targets": ["onnxruntime@cpu"], "options": QUICK}
    asked = {"build": build, "space": {"kinds": ["fp16"]}}
    arm(folder, SEARCHES)
    begun = persistently(farm, lambda http: http.post("/v1/searches", json=asked)).json()

    def over() -> dict[str, Any] | None:
        path = f"/v1/searches/{begun['id']}"
        view: dict[str, Any] = persistently(farm, lambda http: http.get(path)).json()
        return view if view["finished_at"] else None

    view = wait_until("the end of the search", 180, over)
    assert view["state"] == "succeeded", view["verdict"]
    assert [row["precision"]["kind"] for row in view["candidates"]] == ["as-is", "fp16"]
    states = [row["outcome"]["artifact_state"] for row in view["candidates"]]
    assert sorted(states) == ["published", "quarantined"]
    made = count_rows(farm, view["candidates"][0]["build"])
    assert made["builds_of_model"] == len(view["candidates"])
    assert [point for point in SEARCHES if (folder / point).exists()] == []


@pytest.mark.soak
def test_a_death_while_models_come_in_parts_costs_time_only(
    farm: RunningFarm, folder: Path
) -> None:
    """Verifiers die over the first model while the others meet an API that dies, too."""
    first, second, third = (Sending(farm) for _ in range(3))
    for sending in (first, third):
        sending.declare()
        sending.send()
    arm(folder, VERIFYING)
    first.complete()
    arm(folder, SENDING)
    second.declare()
    second.send()
    third.remove()
    assert first.ended()["state"] == "done"
    second.complete()

    assert [row.ended()["state"] for row in (second, third)] == ["done", "cancelled"]
    assert [row.kept() for row in (first, second)] == [KEPT_ONCE, KEPT_ONCE]
    assert third.left() == []
    assert [p for p in (*SENDING, *VERIFYING) if (folder / p).exists()] == []


def arm(folder: Path, points: Iterable[str]) -> None:
    for point in points:
        (folder / point).touch()


def has_begun(farm: RunningFarm, build: str) -> bool | None:
    view = persistently(farm, lambda http: http.get(f"/v1/builds/{build}")).json()
    return any(job["attempts"] for job in view["jobs"]) or None


def kill(farm: RunningFarm, *names: str) -> None:
    """Kill processes of the farm, with all they have started."""
    running = Folder(farm.folder).running()
    assert running is not None
    for name in names:
        tree = psutil.Process(running.children[name])
        for process in [tree, *tree.children(recursive=True)]:
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue


@pytest.mark.parametrize("names", PARTS, ids="+".join)
def test_a_part_that_is_killed_in_the_middle_of_a_build_costs_time_only(
    farm: RunningFarm, names: tuple[str, ...]
) -> None:
    build = submit(farm, model_of(farm))
    wait_until("the first attempt", 60, lambda: has_begun(farm, build))
    kill(farm, *names)

    assert published(farm, build) == ONCE
