"""A build is cancelled at whatever step its job is: at once, for good; nothing of it runs on."""

from __future__ import annotations

import pytest

from tests.e2e.builds import LASTING, QUICK, model_of, rows, submit, view_of
from tests.e2e.conftest import wait_until
from tests.e2e.parts import Parts, standing
from tests.e2e.wire import Way

pytestmark = [pytest.mark.e2e, pytest.mark.soak]


def cancel(parts: Parts, build: str) -> None:
    """Cancel a build twice: the second time changes nothing."""
    with parts.http() as http:
        first = http.post(f"/v1/builds/{build}/cancel").raise_for_status().json()
        again = http.post(f"/v1/builds/{build}/cancel").raise_for_status().json()
    assert (first["state"], again["state"]) == ("cancelled", "cancelled")
    assert first["finished_at"] == again["finished_at"]
    ends = "SELECT 1 FROM events WHERE build_id = :b AND kind = 'build' AND data->>'state' = :s"
    assert len(rows(parts, ends, b=build, s="cancelled")) == 1


def count(parts: Parts, build: str, table: str) -> int:
    """Return how many rows a table has of a build."""
    question = f"SELECT count(*) FROM {table} WHERE build_id = :b"  # noqa: S608 - a table's name
    return int(rows(parts, question, b=build)[0][0])


def state(parts: Parts, build: str, stage: str) -> str:
    """Return the state of a build's job."""
    job = next(job for job in view_of(parts, build)["jobs"] if job["stage"] == stage)
    return str(job["state"])


def reached(parts: Parts, build: str, stage: str, goal: str) -> None:
    """Wait until a build's job is in a state."""
    wait_until(f"{stage} to be {goal}", 180, lambda: state(parts, build, stage) == goal or None)


def all_cancelled(parts: Parts, build: str) -> None:
    """Wait until no job of a build is left to do, and see that nothing came of it."""

    def probe() -> bool | None:
        states = {job["state"] for job in view_of(parts, build)["jobs"]}
        return states <= {"cancelled", "succeeded"} or None

    wait_until("the end of every job", 400, probe)
    assert state(parts, build, "publish") == "cancelled"
    assert count(parts, build, "artifacts") == 0


def test_a_build_that_waits_is_cancelled_at_once(parts: Parts) -> None:
    parts.leave("tasks")  # nobody announces, so the job stays queued
    build = submit(parts, model_of(parts), QUICK)
    assert state(parts, build, "repair") == "queued"

    cancel(parts, build)

    assert {job["state"] for job in view_of(parts, build)["jobs"]} == {"cancelled"}
    parts.start("tasks")
    all_cancelled(parts, build)
    question = "SELECT 1 FROM attempts JOIN jobs ON jobs.id = job_id WHERE build_id = :b"
    assert rows(parts, question, b=build) == []


def test_a_build_whose_upload_is_being_looked_at_is_cancelled(parts: Parts) -> None:
    build = submit(parts, model_of(parts), QUICK)
    reached(parts, build, "repair", "running")
    with standing(wait_until("the child", 180, lambda: parts.children() or None)):
        parts.leave("tasks")  # nobody settles, so what the node has stored stays uploaded
    reached(parts, build, "repair", "uploaded")

    cancel(parts, build)

    parts.start("tasks")
    all_cancelled(parts, build)
    assert {job["state"] for job in view_of(parts, build)["jobs"]} == {"cancelled"}


def test_a_build_whose_files_do_not_come_is_cancelled_and_its_node_is_free(parts: Parts) -> None:
    build = submit(parts, model_of(parts), QUICK)
    with parts.bucket.made(Way.SILENT):
        reached(parts, build, "repair", "running")

        cancel(parts, build)

        all_cancelled(parts, build)
        assert parts.children() == []


def test_a_build_that_is_being_published_is_cancelled(parts: Parts) -> None:
    build = submit(parts, model_of(parts), LASTING)
    reached(parts, build, "benchmark", "running")
    parts.leave("tasks")
    reached(parts, build, "benchmark", "uploaded")
    with parts.bucket.made(Way.SILENT):
        parts.start("tasks")  # it has nothing to look at before it begins to publish
        reached(parts, build, "publish", "running")

        cancel(parts, build)

        assert state(parts, build, "publish") == "running"
    all_cancelled(parts, build)
