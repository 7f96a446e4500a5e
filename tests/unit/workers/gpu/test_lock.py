"""One owner per device, whatever becomes of the owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from enginefarm.errors import JobFailed
from workers.gpu.lock import DeviceLock, take_one, try_lock
from workers.settings import ROOT, child_environment

HOLDER = """
import sys, time
from pathlib import Path
from workers.gpu.lock import try_lock
held = try_lock(Path(sys.argv[1]), "GPU-1")
print(held is not None, flush=True)
time.sleep(600)
"""


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Give another process that has the device."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        cwd=ROOT,
        env=child_environment(folder),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        yield process
        process.kill()


def lock(folder: Path, *, shared: bool = False) -> DeviceLock:
    """Take the device, which must be free."""
    held = try_lock(folder, "GPU-1", shared=shared)
    assert held is not None
    return held


def test_a_device_has_one_owner_across_processes_and_none_once_that_is_killed(
    tmp_path: Path,
) -> None:
    with holder(tmp_path) as process:
        assert try_lock(tmp_path, "GPU-1") is None
        assert try_lock(tmp_path, "GPU-1", shared=True) is None
        lock_of_another = try_lock(tmp_path, "GPU-2")
        assert lock_of_another is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
        lock(tmp_path).free()


def test_those_who_share_keep_out_one_who_wants_it_alone(tmp_path: Path) -> None:
    first, second = lock(tmp_path, shared=True), lock(tmp_path, shared=True)
    assert try_lock(tmp_path, "GPU-1") is None
    first.free()
    assert try_lock(tmp_path, "GPU-1") is None
    second.free()
    lock(tmp_path).free()


def test_of_several_devices_the_one_that_is_free_is_taken(tmp_path: Path) -> None:
    held = lock(tmp_path)
    taken = take_one(tmp_path, ["GPU-1", "GPU-2"], shared=False, wait_s=0, waiting=lambda: False)
    assert taken.uuid == "GPU-2"
    held.free()


def test_a_device_that_becomes_free_while_one_waits_is_taken(tmp_path: Path) -> None:
    held = lock(tmp_path)
    asked: list[int] = []

    def waiting() -> bool:
        asked.append(1)
        held.free()
        return False

    take_one(tmp_path, ["GPU-1"], shared=False, wait_s=60, waiting=waiting).free()
    assert asked


def test_a_device_that_stays_taken_is_busy_and_no_fault_of_the_job(tmp_path: Path) -> None:
    held = lock(tmp_path)
    with pytest.raises(JobFailed) as failed:
        take_one(tmp_path, ["GPU-1"], shared=False, wait_s=0, waiting=lambda: False)
    assert failed.value.code == "device_busy"
    with pytest.raises(JobFailed) as failed:
        take_one(tmp_path, ["GPU-1"], shared=False, wait_s=60, waiting=lambda: True)
    assert failed.value.code == "cancelled"
    held.free()


def test_a_folder_that_cannot_be_used_is_said_and_nothing_is_locked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "GPU-1.lock").symlink_to(tmp_path / "file")
    for folder in (tmp_path / "file" / "in", tmp_path):
        with pytest.raises(JobFailed) as failed:
            try_lock(folder, "GPU-1")
        assert failed.value.code == "device_lock_unavailable"
        assert "ENGINEFARM_DEVICE_LOCK_DIR" in failed.value.fix


def test_what_a_stranger_put_in_the_place_of_a_lock_keeps_nobody_waiting(tmp_path: Path) -> None:
    (tmp_path / "GPU-2.lock").mkdir()
    os.mkfifo(tmp_path / "GPU-1.lock")
    ask = HOLDER.replace("GPU-1", "{}").replace("time.sleep(600)", "")
    for uuid in ("GPU-1", "GPU-2"):
        asked = subprocess.run(
            [sys.executable, "-c", ask.format(uuid), str(tmp_path)],
            cwd=ROOT,
            env=child_environment(tmp_path),
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
        assert f"{uuid}.lock is no plain file" in asked.stderr
