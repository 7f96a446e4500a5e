"""A whole node as a process: it enrols, beats, hears a ring through Valkey, works, and leaves."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from enginefarm.state import Stage
from tasks.app import make_app, ring
from tasks.messages import BackendDescription, Ring
from tests.contract.backends import custom_operators
from tests.integration.workers.served import TOKEN, Served, model_bytes
from workers import processes
from workers.settings import ROOT

pytestmark = pytest.mark.services


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for what the node brings about."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


@pytest.fixture
def plugins() -> Path | None:
    """Return no folder of plugins; a test that wants one says which."""
    return None


@pytest.fixture
def node(
    served: Served, valkey_url: str, tmp_path: Path, plugins: Path | None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start ``python -m workers`` as an operator would."""
    told = {} if plugins is None else {"ENGINEFARM_NODE_PLUGINS": str(plugins)}
    told |= {
        "ENGINEFARM_URL": served.url,
        "ENGINEFARM_BROKER_URL": valkey_url,
        "ENGINEFARM_ENROLMENT_TOKEN": TOKEN,
        "ENGINEFARM_NODE_STATE_DIR": str(tmp_path / "state"),
    }
    with (tmp_path / "node.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "workers", "--name", "tester", "--stages", "check", "compile"],
            cwd=ROOT,
            env=os.environ | told | {"PYTHONPATH": f"{ROOT}:{ROOT / 'client' / 'src'}"},
            stdout=log,
            stderr=log,
        )
        yield process
    if process.poll() is None:
        members = processes.descendants(process.pid)
        process.kill()
        processes.kill_all(members)
        process.wait()


def ring_it(valkey_url: str, queue: str = "compile.cpu") -> None:
    """Announce the job, as the dispatcher does."""
    app = make_app(valkey_url, publisher=True)
    message = Ring(job_id="job_1", attempt=1)
    ring(app, message, queue, priority=5, shown={"model": "m", "target": "onnxruntime@cpu"})
    app.close()


def lines(tmp_path: Path) -> list[dict[str, object]]:
    """Return what the node logged."""
    text = (tmp_path / "node.log").read_text()
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def heard(served: Served, path: str) -> bool:
    """Tell whether a call has come."""
    return any(called.endswith(path) for called, _ in served.heard)


def test_a_node_enrols_beats_works_and_leaves(
    served: Served,
    node: subprocess.Popen[bytes],
    valkey_url: str,
    backends: dict[str, BackendDescription],
    tmp_path: Path,
) -> None:
    wait_until(lambda: heard(served, "/worker/v1/beat"))
    (enrolled,) = served.bodies("/enrol")
    assert enrolled["name"] == "tester"
    assert enrolled["description"]["stages"] == ["check", "compile"]
    told = {backend["name"] for backend in enrolled["description"]["backends"]}
    assert told == set(backends)
    state = tmp_path / "state" / "node.json"
    assert (state.stat().st_mode & 0o777, state.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert TOKEN not in state.read_text()

    model = served.put(model_bytes(tmp_path), "model", "model.onnx")
    profiles = [{"x": {"min": [1, 16], "opt": [4, 16], "max": [8, 16]}}]
    recipe = {"backend_version": backends["onnxruntime"].version, "profiles": profiles}
    served.assign(Stage.COMPILE, "onnxruntime@cpu", recipe, [model])
    ring_it(valkey_url)
    wait_until(lambda: heard(served, "/finish"))
    assert served.finish["state"] == "succeeded", served.finish["failure"]
    ring_it(valkey_url)  # heard twice: the farm declines, and nothing happens
    wait_until(lambda: len(served.bodies("/claims")) == 2)

    node.send_signal(signal.SIGTERM)
    assert node.wait(40) == 0
    assert served.bodies("/beat")[-1]["draining"] is True
    events = [line["event"] for line in lines(tmp_path)]
    assert {"node_enrolled", "job_claimed", "child_ended", "job_finished"} <= set(events)
    finished = next(line for line in lines(tmp_path) if line["event"] == "job_finished")
    assert (finished["job"], finished["build"], finished["attempt"]) == ("job_1", "bld_1", 1)


class TestPlugins:
    """A node whose operator has laid a library in its folder."""

    @pytest.fixture
    def plugins(self, tmp_path: Path) -> Path:
        """Return a folder with a real library, and a file that is none."""
        (tmp_path / "none.so").write_bytes(b"no library")
        return custom_operators.laid(tmp_path, tmp_path / "none.so")

    def test_a_library_is_announced_until_a_job_finds_another_in_its_place(
        self,
        served: Served,
        node: subprocess.Popen[bytes],
        plugins: Path,
        valkey_url: str,
        tmp_path: Path,
    ) -> None:
        wait_until(lambda: heard(served, "/worker/v1/beat"))
        (enrolled,) = served.bodies("/enrol")
        announced = libraries(enrolled["description"])
        assert [row["name"] for row in announced] == ["custom.so"]
        absent = next(line for line in lines(tmp_path) if line["event"] == "plugin_absent")
        assert absent["plugin"] == "onnxruntime/none.so"
        (plugins / "onnxruntime" / "custom.so").write_bytes(b"another")
        recipe = {"plugins": {"onnxruntime": [announced[0]["digest"]]}}
        served.assign(Stage.COMPILE, "onnxruntime@cpu", recipe, [])
        ring_it(valkey_url)
        wait_until(lambda: heard(served, "/finish"))
        assert served.finish["failure"]["code"] == "plugin_changed"
        wait_until(lambda: any(row and libraries(row) == [] for row in told_by(served)))
        node.send_signal(signal.SIGTERM)
        assert node.wait(40) == 0


def told_by(served: Served) -> list[dict[str, Any] | None]:
    """Return what the node said of itself, beat by beat."""
    return [row.get("description") for row in served.bodies("/worker/v1/beat")]


def libraries(description: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the plugins that a node announces, of all backends."""
    return [each for row in description["backends"] for each in row["plugins"]]


def test_a_node_that_is_killed_leaves_no_child_behind(
    served: Served,
    node: subprocess.Popen[bytes],
    valkey_url: str,
    backends: dict[str, BackendDescription],
    tmp_path: Path,
) -> None:
    wait_until(lambda: heard(served, "/worker/v1/beat"))
    model = served.put(model_bytes(tmp_path, layers=1500), "model", "model.onnx")
    profiles = [{"x": {"min": [1, 16], "opt": [4, 16], "max": [8, 16]}}]
    name = "tensorrt-rtx" if "tensorrt-rtx" in backends else "onnxruntime"
    recipe = {"backend_version": backends[name].version, "profiles": profiles}
    target = f"{name}@{'sm_89' if name == 'tensorrt-rtx' else 'cpu'}"
    served.assign(Stage.COMPILE, target, recipe, [model])
    ended, events = threading.Event(), list[dict[str, object]]()
    listener = threading.Thread(target=flower_events, args=(valkey_url, ended, events))
    listener.start()
    ring_it(valkey_url)
    wait_until(lambda: any(body["progress"] for body in served.bodies("/job_1/beat")))
    wait_until(lambda: any(event["type"] == "task-progress" for event in events))
    ended.set()
    listener.join()
    shown = next(event for event in events if event["type"] == "task-progress")
    assert str(shown["uuid"]).startswith("compile-m-cpu-job_1")
    assert str(shown["result"]).endswith("s)")
    members = processes.descendants(node.pid)
    assert any("workers.child" in _command(pid) for pid in members)
    node.kill()
    node.wait()
    wait_until(lambda: not any(_command(pid) for pid in members))
    assert not heard(served, "/finish")


def flower_events(valkey_url: str, ended: threading.Event, kept: list[dict[str, object]]) -> None:
    """Keep what Flower would be told, until the test has seen enough."""
    app = make_app(valkey_url)
    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": kept.append})
        while not ended.is_set():
            with contextlib.suppress(TimeoutError):
                receiver.capture(limit=None, timeout=0.5, wakeup=False)
    app.close()


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
