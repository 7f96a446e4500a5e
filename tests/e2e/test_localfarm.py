"""``python -m localfarm``: up, status, stop; data survives, and a process that ends is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from enginefarm.client import FarmClient
from localfarm.folder import Folder, Running, read_client_file
from localfarm.models import shipped
from localfarm.settings import ROOT

pytestmark = pytest.mark.e2e
READY_SECONDS = 90.0
NOT_RUNNING = 3


class Farm:
    """One data folder, driven by the command as a person drives it."""

    def __init__(self, place: Path) -> None:
        self.folder = Folder(place / "data")
        self._output = place / "output"
        self._up: list[subprocess.Popen[bytes]] = []

    def up(self) -> Running:
        """Start the farm and return once it says that it is ready."""
        with self._output.open("wb") as sink:
            process = subprocess.Popen(
                self._argv("up"), cwd=ROOT, env=self._environment(), stdout=sink, stderr=sink
            )
        self._up.append(process)
        wait_until(lambda: process.poll() is not None or self.folder.running() is not None)
        running = self.folder.running()
        assert running is not None, self.output()
        return running

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run another command on the folder."""
        return subprocess.run(
            self._argv(*words),
            cwd=ROOT,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=READY_SECONDS,
        )

    def exit_code(self) -> int:
        """Wait until `up` has ended, and return how."""
        return self._up[-1].wait(READY_SECONDS)

    def output(self) -> str:
        """Return what `up` has said."""
        return self._output.read_text("utf-8")

    def end(self) -> None:
        """Leave nothing behind, whatever a test did."""
        for process in self._up:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(READY_SECONDS)

    def client(self) -> FarmClient:
        """Return a client with the key that the farm made."""
        words = read_client_file(self.folder)
        return FarmClient(words["url"], words["key"])

    def _argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "localfarm", *words]

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "ENGINEFARM_LOCAL_FOLDER": str(self.folder.path),
            "ENGINEFARM_LOCAL_RESTARTS": "1",
        }


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    """Shadow the farm of the steps: here it is one of separate processes."""
    made = Farm(tmp_path)
    yield made
    made.end()


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_farm_lives_from_up_to_stop_and_its_data_until_the_next_up(farm: Farm) -> None:
    # One test, because each start of a whole farm takes seconds.
    assert farm.run("status").returncode == NOT_RUNNING
    running = farm.up()
    first = processes_of(running)
    require_private_doors(farm, running)
    require_held(farm, running)
    model = shipped("light-squeezenet")
    with farm.client() as client:
        uploaded = client.models.upload(model.file(), name=model.name)
    key = read_client_file(farm.folder)["key"]

    assert farm.run("stop").returncode == 0

    assert farm.exit_code() == 0
    assert not [process for process in first if process.is_running()]
    assert farm.run("status").returncode == NOT_RUNNING

    running = farm.up()
    second = processes_of(running)
    assert read_client_file(farm.folder)["key"] == key
    with farm.client() as client:
        assert client.models.get(uploaded.digest).name == model.name

    killed = running.children["tasks"]
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: (farm.folder.running() or running).children["tasks"] != killed)
    assert "tasks ended with exit status -9; started again" in farm.output()
    running = farm.folder.running() or running
    second = processes_of(running)

    os.kill(running.children["tasks"], signal.SIGKILL)  # once more than it is told to bear

    assert farm.exit_code() == 1
    assert "The process tasks ended with exit status -9." in farm.output()
    assert str(farm.folder.log("tasks")) in farm.output().replace("\n", "")
    assert not [process for process in second if process.is_running()]


def processes_of(running: Running) -> list[psutil.Process]:
    return [psutil.Process(pid) for pid in running.children.values()]


def require_private_doors(farm: Farm, running: Running) -> None:
    """Everything listens on loopback, and Flower wants its password."""
    user, _, password = running.flower_login.partition(":")

    assert httpx.get(f"{running.flower}/workers").status_code == httpx.codes.UNAUTHORIZED
    assert httpx.get(f"{running.flower}/workers", auth=(user, password)).is_success
    assert shown_queues(running, (user, password)) >= {"check.cpu", "compile.cpu", "benchmark.cpu"}
    assert listening_addresses(running) == {"127.0.0.1"}
    assert farm.folder.client_file.stat().st_mode & 0o777 == 0o600


def shown_queues(running: Running, auth: tuple[str, str]) -> set[str]:
    """Return the queues whose lengths Flower's page of the broker shows."""
    answer = httpx.get(f"{running.flower}/api/queues/length", auth=auth, timeout=30)
    return {row["name"] for row in answer.raise_for_status().json()["active_queues"]}


def require_held(farm: Farm, running: Running) -> None:
    """The running farm is shown, and a second one on the same folder is refused."""
    assert running.docs in farm.run("status").stdout
    again = farm.run("up")

    assert again.returncode == 1
    assert "runs on" in again.stderr


def listening_addresses(running: Running) -> set[str]:
    return {
        connection.laddr.ip
        for pid in running.children.values()
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True))
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
