"""A node that loses the control plane: it works on for its lease, and not a moment longer."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from enginefarm.state import Stage
from tasks.fault_points import STAND
from tests.e2e.builds import LASTING, ONCE, ended, model_of, published, rows, submit
from tests.e2e.conftest import wait_until
from tests.e2e.parts import NODE, Parts, standing
from tests.e2e.wire import Way

pytestmark = [pytest.mark.e2e, pytest.mark.soak]
LEASE_S = 4.0
ENDLESS = {"benchmark": {"min_duration_ms": 300_000, "max_duration_ms": 300_000}}


@pytest.fixture(scope="module")
def _short_leases(_parts: Parts) -> Iterator[None]:
    """Let the API give short leases."""
    with _parts.api_with(lease_s=LEASE_S):
        yield


def attempts(
    parts: Parts, build: str, stage: Stage = Stage.BENCHMARK
) -> list[tuple[str, str | None]]:
    """Return the end of each attempt at one stage of a build, and the failure's code."""
    question = (
        "SELECT attempts.state, attempts.failure->>'code' FROM attempts "
        "JOIN jobs ON jobs.id = job_id WHERE build_id = :b AND stage = :s ORDER BY number"
    )
    return [(row[0], row[1]) for row in rows(parts, question, b=build, s=str(stage))]


def measuring(
    parts: Parts, options: Mapping[str, object] = LASTING
) -> tuple[str, list[psutil.Process]]:
    """Return a build whose benchmark runs, and the processes in which it does."""
    build = submit(parts, model_of(parts), options)

    def probe() -> list[psutil.Process] | None:
        return (attempts(parts, build) and parts.children()) or None

    return build, wait_until("the benchmark", 180, probe)


def test_a_road_that_is_cut_for_less_than_a_lease_costs_nothing(parts: Parts) -> None:
    build, _ = measuring(parts)
    with parts.road.made(Way.CUT):
        said = parts.place.log(NODE).read_text().count("lease_beat_missed")
        wait_until(
            "a beat that is missed",
            90,
            lambda: parts.place.log(NODE).read_text().count("lease_beat_missed") > said or None,
        )

    assert published(parts, build) == ONCE
    assert attempts(parts, build) == [("succeeded", None)]


@pytest.mark.usefixtures("_short_leases")
@pytest.mark.parametrize("way", [Way.CUT, Way.SILENT])
def test_a_node_whose_road_is_away_for_a_lease_frees_the_device_without_being_told(
    parts: Parts, way: Way
) -> None:
    build, children = measuring(parts, ENDLESS)
    with parts.road.made(way):
        wait_until("the end of the child", 180, lambda: over(children) or None)
        wait_until("the end of the lease", 180, lambda: lapsed(parts, build))

    wait_until("another attempt", 180, lambda: attempts(parts, build)[1:] or None)
    assert attempts(parts, build) == [("failed", "node_lost"), ("running", None)]
    with parts.http() as http:
        http.post(f"/v1/builds/{build}/cancel").raise_for_status()


def lapsed(parts: Parts, build: str, stage: Stage = Stage.BENCHMARK) -> bool | None:
    """Tell whether the farm has taken the job from its node."""
    return attempts(parts, build, stage)[:1] == [("failed", "node_lost")] or None


@pytest.mark.usefixtures("_short_leases")
def test_what_a_node_says_after_its_lease_is_refused(parts: Parts) -> None:
    build, children = measuring(parts)
    (slot,) = {child.ppid() for child in children}
    with standing([psutil.Process(slot)]):
        wait_until("the end of the child", 180, lambda: over(children) or None)
        wait_until("the end of the lease", 180, lambda: lapsed(parts, build))
        before = refusals(parts)
    # It wakes with a result in its hands, and a lease that is another's by now.

    assert published(parts, build) == ONCE
    assert attempts(parts, build) == [("failed", "node_lost"), ("succeeded", None)]
    assert refusals(parts) > before


@pytest.mark.usefixtures("_short_leases")
def test_the_end_that_a_node_tells_after_its_lease_is_refused(parts: Parts, tmp_path: Path) -> None:
    """It has stored an engine and stands still; another builds meanwhile; then it says so."""
    model = model_of(parts)
    ended(parts, submit(parts, model, until="check"))  # so that the next job is the compile
    parts.leave(NODE)
    parts.start("slow", fault_dir=str(tmp_path))
    (tmp_path / "node.stored").write_text(STAND)
    build = submit(parts, model)
    slot = wait_until("a node that stands still", 180, lambda: still(parts.below("slow")))
    wait_until("the end of the lease", 180, lambda: lapsed(parts, build, Stage.COMPILE))
    parts.start(NODE)
    wait_until("another attempt", 180, lambda: attempts(parts, build, Stage.COMPILE)[1:] or None)
    before = refusals(parts, "/finish")
    slot.send_signal(signal.SIGCONT)
    wait_until("its end", 180, lambda: refusals(parts, "/finish") > before or None)

    assert published(parts, build) == ONCE | {"builds_of_model": 2}
    assert attempts(parts, build, Stage.COMPILE) == [("failed", "node_lost"), ("succeeded", None)]


def still(processes: list[psutil.Process]) -> psutil.Process | None:
    """Return the process that stands still, if one does."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.status() == psutil.STATUS_STOPPED:
                return process
    return None


def refusals(parts: Parts, what: str = "") -> int:
    """Return how often the API has refused what a node said of a job, by the path's end."""
    lines = parts.place.log("api").read_text().splitlines()
    told = [json.loads(line) for line in lines if '"/worker/v1/jobs/' in line]
    return sum(
        line.get("status") == httpx.codes.CONFLICT and line["path"].endswith(what) for line in told
    )


def over(children: list[psutil.Process]) -> bool:
    """Tell whether processes have ended, noticed by their parent or not."""
    return all(
        not child.is_running() or child.status() == psutil.STATUS_ZOMBIE for child in children
    )
