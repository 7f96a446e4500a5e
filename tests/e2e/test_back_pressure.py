"""What is slow, broken or full is said to be so, counts against nobody, and is over by itself."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import httpx
import psycopg
import pytest
from sqlalchemy.engine import make_url

from localfarm.services import Services
from tests.e2e.builds import (
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
from tests.e2e.wire import Way

pytestmark = [pytest.mark.e2e, pytest.mark.soak]


def codes(parts: Parts, build: str) -> list[str]:
    """Return why attempts at a build's jobs on nodes have failed."""
    question = (
        "SELECT attempts.failure->>'code' FROM attempts JOIN jobs ON jobs.id = job_id "
        "WHERE build_id = :b AND attempts.failure->>'code' IS NOT NULL "
        "AND attempts.node_id IS NOT NULL"
    )
    return [row[0] for row in rows(parts, question, b=build)]


def ends_well_and_uncounted(parts: Parts, build: str) -> None:
    """See a build end well, once, with no failure held against job or node."""
    assert published(parts, build) == ONCE
    question = "SELECT count(*) FROM jobs WHERE build_id = :b AND failures > 0"
    assert rows(parts, question, b=build)[0][0] == 0
    assert rows(parts, "SELECT count(*) FROM nodes WHERE faults > 0")[0][0] == 0


def refused(answer: httpx.Response, code: str) -> None:
    """See a request refused for now, with a problem and the time to come back."""
    assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == code
    assert int(answer.headers["Retry-After"]) > 0


def upload(parts: Parts, data: bytes) -> httpx.Response:
    """Send a model once."""
    with parts.http() as http:
        return http.post("/v1/models?name=tiny", content=data)


def test_a_slow_bucket_costs_time_only(parts: Parts) -> None:
    with parts.bucket.made(Way.SLOW):
        build = submit(parts, model_of(parts), QUICK)
        ends_well_and_uncounted(parts, build)

    assert codes(parts, build) == []


@pytest.mark.parametrize("way", [Way.FULL, Way.TORN])
def test_a_bucket_that_takes_nothing_is_waited_for(parts: Parts, way: Way) -> None:
    build, data = submit(parts, model_of(parts), QUICK), model_bytes()
    with parts.bucket.made(way):
        refused(upload(parts, data), "bucket_away")
        wait_until("an attempt without a bucket", 180, lambda: codes(parts, build) or None)

    assert upload(parts, data).status_code == httpx.codes.CREATED
    ends_well_and_uncounted(parts, build)
    assert set(codes(parts, build)) == {"bucket_away"}


def test_a_database_without_a_connection_left_is_waited_for(parts: Parts) -> None:
    build = submit(parts, model_of(parts), QUICK)
    with every_connection(parts):
        with parts.http() as http:
            refused(http.get("/v1/builds"), "database_away")
        said = parts.place.log("tasks").stat().st_size
        wait_until("the loops' trouble", 180, lambda: loops_troubled(parts, said) or None)

    assert view_of(parts, build)["state"] in {"pending", "running", "succeeded"}
    ends_well_and_uncounted(parts, build)


def loops_troubled(parts: Parts, since: int) -> bool:
    """Tell whether the loops have missed the database since their log was so long."""
    return b"loop_trouble" in parts.place.log("tasks").read_bytes()[since:]


@contextmanager
def every_connection(parts: Parts) -> Iterator[None]:
    """Hold every connection that the database gives, those of the farm too."""
    url = make_url(Services(parts.folder).postgres.url("postgres"))
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with ExitStack() as held:
        first = held.enter_context(psycopg.connect(plain, autocommit=True))

        def none_left() -> bool | None:
            try:
                while True:
                    held.enter_context(psycopg.connect(plain))
            except psycopg.OperationalError:
                ended = first.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'enginefarm'"
                ).fetchall()
            return True if not ended else None

        wait_until("the last connection", 180, none_left)
        yield


def test_a_spool_without_room_refuses_and_leaves_nothing(parts: Parts) -> None:
    room = parts.place.log("api").stat().st_size + (1 << 20)
    with largest_file([parts.child("api").pid], room):
        refused(upload(parts, bytes(2 * room)), "spool_full")
        assert upload(parts, model_bytes()).status_code == httpx.codes.CREATED

    assert list((parts.folder / "spool").iterdir()) == []
    assert upload(parts, bytes(2 * room)).json()["code"] == "not_a_model"


def test_a_node_without_room_is_waited_for(parts: Parts) -> None:
    room = parts.place.log(NODE).stat().st_size + (64 << 10)
    model = upload(parts, model_bytes(values=room)).raise_for_status().json()["digest"]
    node = [parts.child(NODE).pid, *(row.pid for row in parts.below(NODE))]
    with largest_file(node, room):
        build = submit(parts, model, QUICK)
        wait_until("an attempt without room", 180, lambda: codes(parts, build) or None)

    ends_well_and_uncounted(parts, build)
    assert set(codes(parts, build)) == {"scratch_full"}


@contextmanager
def largest_file(pids: Sequence[int], size: int) -> Iterator[None]:
    """Let processes, and those that they start, write no larger file while the block runs."""
    before = [resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in pids]
    for pid, (_, hard) in zip(pids, before, strict=True):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        for pid, limits in zip(pids, before, strict=True):
            with suppress(ProcessLookupError):  # a slot's process serves one task
                resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
