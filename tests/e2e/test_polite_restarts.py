"""A part that is told to leave, and started again, costs time only: no work, attempt or event.

Each leaves as a service manager asks it to (PostgreSQL by its fast shutdown; SeaweedFS, which waits
for its clients without end, is ended), and with exit status 0.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from enginefarm.client import FarmClient
from tasks.routing import NODE_STAGES
from tests.e2e.builds import (
    LASTING,
    ONCE,
    QUICK,
    model_bytes,
    model_of,
    published,
    rows,
    submit,
    view_of,
)
from tests.e2e.conftest import wait_until
from tests.e2e.parts import NODE, Parts

pytestmark = [pytest.mark.e2e, pytest.mark.soak]
POLITE = ("tasks", "flower", "valkey", "postgres")
ENDED = -9


def counted(parts: Parts, build: str) -> int:
    """Return how often a failure was counted against the jobs of a build."""
    return int(rows(parts, "SELECT sum(failures) FROM jobs WHERE build_id = :b", b=build)[0][0])


def running(parts: Parts, build: str, stage: str = "") -> str | None:
    """Return a job of a build that runs on a node."""
    jobs = view_of(parts, build)["jobs"]
    stages = {stage} if stage else set(NODE_STAGES)
    found = (job["id"] for job in jobs if job["state"] == "running" and job["stage"] in stages)
    return next(found, None)


def attempts(parts: Parts, build: str, stage: str) -> list[tuple[int, str]]:
    """Return number and end of each attempt at a job."""
    question = (
        "SELECT number, attempts.state FROM attempts JOIN jobs ON jobs.id = job_id "
        "WHERE build_id = :b AND stage = :s ORDER BY number"
    )
    return [(row[0], row[1]) for row in rows(parts, question, b=build, s=stage)]


def test_every_part_leaves_in_turn_while_a_build_is_in_flight(parts: Parts) -> None:
    parts.start("flower")
    builds: list[str] = []
    ends: dict[str, int] = {}

    def in_flight() -> bool | None:
        if not builds or view_of(parts, builds[-1])["finished_at"]:
            builds.append(submit(parts, model_of(parts), QUICK))
        return running(parts, builds[-1]) is not None or None

    for name in (*POLITE, "seaweedfs"):
        wait_until("a job that runs", 180, in_flight)
        ends[name] = parts.leave(name)
        parts.start(name)

    assert ends == dict.fromkeys(POLITE, 0) | {"seaweedfs": ENDED}
    assert [published(parts, build) for build in builds] == [ONCE] * len(builds)
    assert [counted(parts, build) for build in builds] == [0] * len(builds)


def test_a_node_that_leaves_lets_its_job_end_or_hands_it_back(parts: Parts) -> None:
    parts.leave(NODE)
    parts.start("hasty", node_grace_s="0.5")
    build = submit(parts, model_of(parts), LASTING)
    wait_until("the benchmark", 180, lambda: running(parts, build, "benchmark"))
    children = wait_until("the child", 180, lambda: parts.children("hasty") or None)

    assert parts.leave("hasty") == 0
    assert not [child for child in children if child.is_running()]
    parts.start(NODE)
    wait_until("the benchmark again", 180, lambda: running(parts, build, "benchmark"))
    assert parts.leave(NODE) == 0

    assert published(parts, build) == ONCE
    assert attempts(parts, build, "benchmark") == [(1, "cancelled"), (2, "succeeded")]
    assert counted(parts, build) == 0


def test_an_api_that_leaves_ends_streams_and_finishes_requests(parts: Parts) -> None:
    build = submit(parts, model_of(parts), QUICK)
    stream, upload = Stream(parts, build), Upload(parts)
    wait_until("the first event", 180, lambda: stream.ids or None)
    wait_until("the upload's arrival", 180, lambda: spooled(parts) or None)

    parts.child("api").ask_to_stop()
    wait_until("the end of listening", 180, lambda: not listens(parts) or None)
    assert upload.status() == httpx.codes.CREATED
    assert parts.leave("api") == 0
    assert stream.ended_well()

    parts.start("api")
    with FarmClient(parts.url, parts.key) as farm:
        rest = list(farm.builds.watch(build, after=stream.ids[-1]))
    seen = [number(event.id) for event in rest if event.kind in {"job", "build"}]
    there = [row[0] for row in rows(parts, "SELECT seq FROM events WHERE build_id = :b", b=build)]
    assert seen == [seq for seq in sorted(there) if seq > number(stream.ids[-1])]
    assert published(parts, build) == ONCE
    assert counted(parts, build) == 0


def number(event_id: str) -> int:
    """Return the number under which the database has an event."""
    return int(event_id.partition(".")[0])


class Upload:
    """A model that is sent beside the test; its second half when the test asks for the answer."""

    def __init__(self, parts: Parts) -> None:
        self._rest = threading.Event()
        self._answers: list[int] = []
        self._thread = threading.Thread(target=self._send, args=(parts,))
        self._thread.start()

    def _send(self, parts: Parts) -> None:
        data = model_bytes()

        def body() -> Iterator[bytes]:
            yield data[:20]
            self._rest.wait(600)
            yield data[20:]

        with parts.http() as http:
            self._answers.append(http.post("/v1/models?name=late", content=body()).status_code)

    def status(self) -> int:
        """Send the rest and return the status of the answer."""
        self._rest.set()
        self._thread.join(120)
        (status,) = self._answers
        return status


class Stream:
    """One connection to a build's events, read beside the test until it ends."""

    def __init__(self, parts: Parts, build: str) -> None:
        self.ids: list[str] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._read, args=(parts, build))
        self._thread.start()

    def _read(self, parts: Parts, build: str) -> None:
        path = f"/v1/builds/{build}/events"
        try:
            with parts.http() as http, http.stream("GET", path) as answer:
                for line in answer.iter_lines():
                    if line.startswith("id: "):
                        self.ids.append(line.removeprefix("id: "))
        except httpx.HTTPError as error:
            self._error = error

    def ended_well(self) -> bool:
        """Tell whether the stream came to an end instead of breaking off."""
        self._thread.join(120)
        return not self._thread.is_alive() and self._error is None


def spooled(parts: Parts) -> list[Any]:
    """Return the uploads that are being taken in."""
    return list((parts.folder / "spool").iterdir())


def listens(parts: Parts) -> bool:
    """Tell whether the API takes connections."""
    try:
        with httpx.Client() as http:
            http.get(f"{parts.url}/healthz", timeout=5)
    except httpx.TransportError:
        return False
    return True
