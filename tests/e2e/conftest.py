"""The whole farm as separate processes, and how it is started and asked.

The farm is started exactly as ``make farm`` starts it, with short leases so that a lost node is
noticed within seconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import httpx
import pytest

from localfarm.models import shipped

if TYPE_CHECKING:
    from tests.e2e.parts import Parts

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
SHORT_CLOCKS = {
    "lease_s": 6,
    "heartbeat_s": 1,
    "node_heartbeat_s": 2,
    "node_silent_s": 8,
    "retry_backoff_s": 0.5,
    "publish_lease_s": 3,
    "verify_lease_s": 2,
    "ring_again_s": 5,
}


@dataclass
class RunningFarm:
    """A farm of separate processes, seen from outside: a URL, a key and a trust file."""

    folder: Path
    url: str
    key: str
    trust: Path
    process: subprocess.Popen[bytes]
    plugins: Path | None = None
    """The folder of its node's plugin libraries, if it was given one."""

    def http(self) -> httpx.Client:
        """Return a client that speaks to the farm as the farm's own user does."""
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=30,
        )

    def cli(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command line as a person would."""
        return subprocess.run(
            [str(Path(sys.executable).parent / "enginefarm"), *words],
            env={
                **os.environ,
                "ENGINEFARM_URL": self.url,
                "ENGINEFARM_KEY": self.key,
                "ENGINEFARM_TRUST": str(self.trust),
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def built(self, model: str, targets: Sequence[str], *words: str) -> dict[str, Any]:
        """Submit a shipped model by the command line, wait for its end, and return the build."""
        named = [part for target in targets for part in ("-t", target)]
        file = str(shipped(model).file())
        done = self.cli("submit", file, *named, *words, "--watch", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        view: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])["data"]
        return view

    def report(self, view: dict[str, Any], target: str) -> dict[str, Any]:
        """Return the report of what a build made for a target."""
        digest = next(row["artifact"] for row in view["targets"] if row["target"] == target)
        found: dict[str, Any] = json.loads(self.cli("report", digest, "--json").stdout)
        return found


def wait_until(what: str, seconds: float, probe: Callable[[], T | None]) -> T:
    """Return the first answer of ``probe`` that is not None, within a deadline."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = probe()
        if answer is not None:
            return answer
        time.sleep(0.1)
    pytest.fail(f"{what} did not happen within {seconds:g} s")


def finished(client: httpx.Client, build: str, seconds: float = 120) -> dict[str, Any]:
    """Return the build once it has ended."""

    def probe() -> dict[str, Any] | None:
        view: dict[str, Any] = client.get(f"/v1/builds/{build}").raise_for_status().json()
        return view if view["finished_at"] else None

    return wait_until(f"the end of build {build}", seconds, probe)


@pytest.fixture(scope="session")
def _parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    from tests.e2e.parts import started_parts

    with started_parts(tmp_path_factory.mktemp("parts")) as parts:
        yield parts


@pytest.fixture
def parts(_parts: Parts) -> Parts:
    """Return a farm whose parts a test may take away, with all of them there."""
    _parts.mend()
    return _parts


@contextmanager
def started_farm(folder: Path, **settings: str) -> Iterator[RunningFarm]:
    """Run a farm of its own below ``folder`` while the block runs."""
    data, log = folder / "data", folder / "up.log"
    with log.open("wb") as sink, _started(data, sink, settings) as process:

        def ready() -> dict[str, str] | None:
            if process.poll() is not None:
                pytest.fail(f"the farm ended: {log.read_text()[-4000:]}")
            return _words_of_a_ready_farm(data / "client.toml")

        words = wait_until("the farm's start", 180, ready)
        yield RunningFarm(data, words["url"], words["key"], Path(words["trust"]), process)


@contextmanager
def _started(
    data: Path, sink: BinaryIO, settings: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``localfarm up`` while the block runs; nothing of it outlives the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "localfarm", "up"],
        cwd=ROOT,
        env={
            **os.environ,
            "ENGINEFARM_LOCAL_FOLDER": str(data),
            "ENGINEFARM_LOCAL_POLICY": json.dumps(SHORT_CLOCKS),
            **settings,
        },
        stdout=sink,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            if process.poll() is None:
                process.kill()


def _words_of_a_ready_farm(config: Path) -> dict[str, str] | None:
    """Return what the client file says, once the API is ready and a node is active."""
    if not config.exists():
        return None
    words: dict[str, str] = tomllib.loads(config.read_text())
    key = {"Authorization": f"Bearer {words['key']}"}
    try:
        answer = httpx.get(f"{words['url']}/readyz", timeout=5)
        nodes = httpx.get(f"{words['url']}/v1/nodes", headers=key)
    except httpx.TransportError:
        return None
    seen = nodes.is_success and any(node["state"] == "active" for node in nodes.json())
    return words if answer.is_success and seen else None
