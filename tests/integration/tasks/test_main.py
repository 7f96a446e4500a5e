"""The control loops as a process of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage import signing
from tests.integration.tasks.fake_node import FakeNode
from tests.integration.tasks.scene import Scene

LOOPS = {
    "dispatcher.alive",
    "intake-1.alive",
    "intake.alive",
    "publisher.alive",
    "reconciler.alive",
}
PATIENCE_S = 60.0


@pytest.fixture
def environment(
    postgres_url: str, valkey_url: str, s3: dict[str, str], tmp_path: Path
) -> dict[str, str]:
    private, public = signing.create_key_files(tmp_path / "control-key")
    told = {
        "database_url": postgres_url,
        "valkey_url": valkey_url,
        "broker_url": valkey_url,
        "signing_key_uri": f"file2:{private}",
        "signing_public_key": str(public),
        "health_dir": str(tmp_path / "health"),
    } | s3
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ENGINEFARM_")}
    return kept | {f"ENGINEFARM_{name.upper()}": value for name, value in told.items()}


@pytest.fixture
def control(environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tasks"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        yield process
        process.kill()


def healthy(environment: dict[str, str]) -> bool:
    command = [sys.executable, "-m", "tasks", "healthy"]
    return subprocess.run(command, env=environment, check=False).returncode == 0


def wait_for(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.1)


@pytest.mark.services
def test_the_loops_do_their_work_say_that_they_live_and_end_when_told(
    scene: Scene, node: FakeNode, environment: dict[str, str], control: subprocess.Popen[bytes]
) -> None:
    folder = Path(environment["ENGINEFARM_HEALTH_DIR"])
    build_id = scene.submit()
    wait_for("the ring", lambda: all(row.sent_at is not None for row in scene.rings(build_id)))
    wait_for("life", lambda: {path.name for path in folder.glob("*.alive")} == LOOPS)
    assert healthy(environment)

    control.send_signal(signal.SIGTERM)
    assert control.wait(PATIENCE_S) == 0


def test_loops_that_never_ran_are_not_healthy(environment: dict[str, str]) -> None:
    assert not healthy(environment)


def test_an_unknown_loop_is_refused(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "tasks", "dispatch"]
    ended = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)

    assert ended.returncode == 2
    assert "there is no loop 'dispatch'" in ended.stderr
