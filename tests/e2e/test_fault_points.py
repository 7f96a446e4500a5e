"""Whatever process dies, at whichever step: every accepted build ends well, and is published once.

One farm whose processes are started again when they end. A step is armed by a file; the first
process to reach it kills itself there. Some steps share a build, since each costs its whole life.
"""

from __future__ import annotations

import signal
import uuid
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from onnx import TensorProto, helper
from sqlalchemy import create_engine, text

from enginefarm.digest import digest_of
from localfarm.folder import Folder
from localfarm.services import Services
from tasks.fault_points import POINTS
from tests.e2e.conftest import RunningFarm, started_farm, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("faults")]
QUICK = {"benchmark": {"min_iterations": 10, "min_duration_ms": 1, "max_duration_ms": 200}}
# Long enough for a beat or two, which come every second here.
LONG = {"benchmark": {"min_iterations": 10, "min_duration_ms": 3000, "max_duration_ms": 4000}}
TOGETHER = [
    ["submit.written", "dispatch.sent", "claim.written"],
    ["submit.committed", "dispatch.committed", "claim.committed"],
    ["node.heard", "uploads.given", "settle.proved"],
    ["node.claimed", "beat.committed", "settle.written"],
    ["node.fetched", "finish.written", "settle.committed"],
    ["child.began", "finish.committed", "publish.taken"],
    ["child.made", "publish.stored", "publish.written"],
    ["node.child_ended", "publish.signed"],
    ["node.stored", "publish.committed"],
    ["node.finished", "reconcile.written"],
]
CANCELS = ["cancel.written", "cancel.committed"]
SERVICES = ["valkey", "postgres", "seaweedfs", "api", "tasks", "workers"]
PAIRS = [("postgres", "workers"), ("valkey", "tasks"), ("seaweedfs", "api")]


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


def model_of(farm: RunningFarm) -> str:
    """Upload a model that is like no other; return its digest."""
    weight = helper.make_tensor(
        "w", TensorProto.FLOAT, [4], [float(b) for b in uuid.uuid4().bytes[:4]]
    )
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "added",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [weight],
    )
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    answer = persistently(farm, lambda http: http.post("/v1/models?name=tiny", content=data))
    return str(answer.json()["digest"])


def persistently(
    farm: RunningFarm, ask: Callable[[httpx.Client], httpx.Response]
) -> httpx.Response:
    """Ask until there is an answer, as every client of a farm whose parts come and go must."""

    def probe() -> httpx.Response | None:
        try:
            with farm.http() as http:
                answer = ask(http)
        except httpx.TransportError:
            return None
        return None if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR else answer

    return wait_until("an answer", 60, probe).raise_for_status()


def submit(farm: RunningFarm, model: str, options: Mapping[str, object] = QUICK) -> str:
    body = {"model": model, "targets": ["onnxruntime@cpu"], "options": options}
    key = {"Idempotency-Key": uuid.uuid4().hex}
    answer = persistently(farm, lambda http: http.post("/v1/builds", json=body, headers=key))
    return str(answer.json()["id"])


def ended(farm: RunningFarm, build: str) -> dict[str, Any]:
    def probe() -> dict[str, Any] | None:
        view: dict[str, Any] = persistently(
            farm, lambda http: http.get(f"/v1/builds/{build}")
        ).json()
        return view if view["finished_at"] else None

    return wait_until(f"the end of build {build}", 90, probe)


ONCE = {"builds_of_model": 1, "artifacts": 1, "attestations": 1, "other bytes": 0}


def published(farm: RunningFarm, build: str) -> dict[str, int]:
    """See the build end well; count what came of it, and the blobs that are not what was signed."""
    view = ended(farm, build)
    assert view["state"] == "succeeded", view
    (target,) = view["targets"]
    counts = count_rows(farm, build) | {"other bytes": 0}
    manifest = persistently(farm, lambda http: http.get(f"/v1/artifacts/{target['artifact']}"))
    for row in [manifest.json()["config"], *manifest.json()["layers"]]:
        path = f"/v1/blobs/{row['digest']}?proxy=1"
        blob = persistently(farm, lambda http, path=path: http.get(path))  # type: ignore[misc]
        counts["other bytes"] += digest_of(blob.content) != row["digest"]
    return counts


def count_rows(farm: RunningFarm, build: str) -> dict[str, int]:
    questions = {
        "builds_of_model": "SELECT count(*) FROM builds WHERE model_digest = "
        "(SELECT model_digest FROM builds WHERE id = :build)",
        "artifacts": "SELECT count(*) FROM artifacts WHERE build_id = :build",
        "attestations": "SELECT count(*) FROM attestations JOIN jobs ON jobs.id = job_id "
        "WHERE build_id = :build",
    }
    url = Services(farm.folder).postgres.url("enginefarm")
    engine = create_engine(url)
    with engine.connect() as connection:
        counts = {
            name: int(connection.execute(text(question), {"build": build}).scalar_one())
            for name, question in questions.items()
        }
    engine.dispose()
    return counts


def test_every_step_is_in_the_matrix() -> None:
    assert sorted([*chain(*TOGETHER), *CANCELS]) == sorted(POINTS)


@pytest.mark.parametrize("points", TOGETHER, ids="+".join)
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


@pytest.mark.parametrize("names", [*((name,) for name in SERVICES), *PAIRS], ids="+".join)
def test_a_part_that_is_killed_in_the_middle_of_a_build_costs_time_only(
    farm: RunningFarm, names: tuple[str, ...]
) -> None:
    build = submit(farm, model_of(farm))
    wait_until("the first attempt", 60, lambda: has_begun(farm, build))
    kill(farm, *names)

    assert published(farm, build) == ONCE
