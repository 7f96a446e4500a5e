"""A child of the local farm is ended with certainty, by its parent or with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from localfarm.process import spawn, tail
from localfarm.settings import ROOT, inherited_environment

ANSWER_SECONDS = 20.0
# Says that it is there, starts a process of its own, and ignores the polite signal.
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("ready", child.pid, flush=True)
time.sleep(600)
"""
PARENT = """
import sys, time
from pathlib import Path
from localfarm.process import spawn
from localfarm.settings import inherited_environment
argv = [sys.executable, "-c", "import time; time.sleep(600)"]
child = spawn("sleeper", argv, log=Path(sys.argv[1]), environment=inherited_environment())
print(child.pid, flush=True)
time.sleep(600)
"""


def test_what_a_child_says_is_in_its_log(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "print('one'); print('two')"]

    child = spawn("speaker", argv, log=tmp_path / "log", environment=inherited_environment())

    assert child.popen.wait(ANSWER_SECONDS) == 0
    assert child.tail(1) == ["two"]


def test_a_child_that_ignores_the_polite_signal_is_ended_with_its_own_children(
    tmp_path: Path,
) -> None:
    argv = [sys.executable, "-c", STUBBORN]
    child = spawn("stubborn", argv, log=tmp_path / "log", environment=inherited_environment())
    _until(lambda: bool(child.tail()))
    grandchild = int(child.tail()[-1].split()[1])

    child.stop(grace_s=0.2)

    assert child.exit_code() == -signal.SIGKILL
    _until(lambda: not _lives(grandchild))


def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "log")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        _until(lambda: "time.sleep" in " ".join(psutil.Process(child).cmdline()))

        parent.kill()

    _until(lambda: not _lives(child))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be left")
def test_a_program_that_refuses_root_runs_as_somebody_else(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "import os; print(os.geteuid()); open('made', 'w')"]
    data = tmp_path / "data"
    data.mkdir()

    child = spawn(
        "modest",
        argv,
        log=tmp_path / "log",
        environment=inherited_environment(),
        cwd=data,
        not_root=[data],
    )

    assert child.popen.wait(ANSWER_SECONDS) == 0, child.tail()
    assert child.tail() != ["0"]
    assert (data / "made").exists()


def test_the_tail_of_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert tail(tmp_path / "none", 5) == []


def test_the_tail_of_a_long_log_is_its_last_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"line {number}\n" for number in range(50_000)))

    assert tail(path, 2) == ["line 49998", "line 49999"]


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ANSWER_SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
