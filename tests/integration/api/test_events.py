"""Watching a build over a real connection: from a snapshot to the end, broken off and taken up."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator

import httpx
import pytest

from enginefarm.state import Scope
from enginefarm.views import EventView
from storage.progress import ProgressStreams
from tasks.farm import Farm
from tests.integration.api.asked import run_to_the_end, submit
from tests.integration.api.node import Node, enrol
from tests.integration.api.served import Served


def events(lines: Iterator[str]) -> Iterator[EventView]:
    """Read events, and see that the id of the frame is that of the datum."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
            continue
        if "data" in fields:
            event = EventView.model_validate_json(fields["data"])
            assert (event.id, event.kind) == (fields["id"], fields["event"])
            yield event
        fields = {}


def stream(client: httpx.Client, build_id: str, last: str | None = None) -> list[EventView]:
    """Watch until the farm ends the stream."""
    headers = {"Last-Event-ID": last} if last else {}
    with client.stream("GET", f"/v1/builds/{build_id}/events", headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        return list(events(answer.iter_lines()))


@pytest.fixture
def build(api: Served) -> tuple[Node, str]:
    node = enrol(api)
    with api.client(Scope.SUBMIT) as client:
        return node, submit(client).json()["id"]


def told(seen: list[EventView]) -> list[tuple[str, str, str]]:
    return [
        (event.kind, str(event.data.get("stage", "")), str(event.data.get("state", "")))
        for event in seen
        if event.kind in ("job", "build")
    ]


def watch_to_the_end(api: Served, node: Node, build_id: str) -> list[EventView]:
    """Watch while the build runs to its end."""
    seen: list[EventView] = []
    begun = threading.Event()

    def watch() -> None:
        with (
            api.client(Scope.READ) as client,
            client.stream("GET", f"/v1/builds/{build_id}/events") as answer,
        ):
            for event in events(answer.iter_lines()):
                seen.append(event)
                begun.set()

    thread = threading.Thread(target=watch)
    thread.start()
    assert begun.wait(10)
    run_to_the_end(api, node)
    thread.join(20)
    assert not thread.is_alive(), "the stream did not end with the build"
    return seen


def test_a_watcher_sees_snapshot_moves_progress_and_the_end(
    api: Served, build: tuple[Node, str]
) -> None:
    node, build_id = build
    with node.client:
        seen = watch_to_the_end(api, node, build_id)

    assert seen[0].kind == "snapshot"
    assert seen[0].data["id"] == build_id
    assert told(seen)[-1] == ("build", "", "succeeded")
    assert ("job", "compile", "running") in told(seen)
    assert ("job", "publish", "succeeded") in told(seen)
    progress = [event for event in seen if event.kind == "progress"]
    assert {event.data["phase"] for event in progress} == {
        "repair",
        "check",
        "compile",
        "benchmark",
    }
    assert all(event.job is not None for event in progress)
    numbers = [int(event.id.split(".")[0]) for event in seen]
    assert numbers == sorted(numbers)


def test_whoever_comes_back_at_any_event_sees_exactly_the_rest(
    api: Served, build: tuple[Node, str]
) -> None:
    node, build_id = build
    with node.client:
        seen = watch_to_the_end(api, node, build_id)

    with api.client(Scope.READ) as client:
        for index, event in enumerate(seen[:-1]):
            again = stream(client, build_id, event.id)
            assert all(later.kind != "snapshot" for later in again)
            assert told(again) == told(seen[index + 1 :]), event.id


def test_when_nothing_is_left_the_browser_is_told_to_stop(
    api: Served, build: tuple[Node, str]
) -> None:
    node, build_id = build
    with node.client:
        run_to_the_end(api, node)

    with api.client(Scope.READ) as client:
        late = stream(client, build_id)
        answer = client.get(f"/v1/builds/{build_id}/events", headers={"Last-Event-ID": late[0].id})

    assert [event.kind for event in late] == ["snapshot"]
    assert late[0].data["state"] == "succeeded"
    assert (answer.status_code, answer.content) == (204, b"")


def test_without_valkey_a_watcher_still_sees_every_move(
    serve: Callable[..., Served], farm: Farm, api: Served, build: tuple[Node, str]
) -> None:
    node, build_id = build
    away = ProgressStreams("redis://127.0.0.1:9/0")
    lame = serve(farm=dataclasses.replace(farm, progress=away))
    with node.client:
        seen = watch_to_the_end(lame, node, build_id)

    assert told(seen)[-1] == ("build", "", "succeeded")
    assert ("job", "compile", "succeeded") in told(seen)


def test_comments_keep_a_silent_stream_alive(serve: Callable[..., Served]) -> None:
    api = serve(keep_alive_s=0.05)
    with enrol(api).client, api.client(Scope.SUBMIT) as client:
        build_id = submit(client).json()["id"]
        with client.stream("GET", f"/v1/builds/{build_id}/events") as answer:
            comments = 0
            for line in answer.iter_lines():
                comments += line == ": alive"
                if comments == 2:
                    break

    assert comments == 2


@pytest.mark.parametrize("last", ["7", "x", "1.2.3", "-1.0-0", "999.0-0"])
def test_an_event_id_that_we_never_gave_out_is_refused(
    api: Served, build: tuple[Node, str], last: str
) -> None:
    with api.client(Scope.READ) as client:
        answer = client.get(f"/v1/builds/{build[1]}/events", headers={"Last-Event-ID": last})

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_event_id")
