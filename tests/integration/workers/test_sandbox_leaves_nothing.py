"""Whatever ends a child of the sandbox, nothing it started lives on and nothing stays open."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.workers.sandbox_bench import Bench
from workers import processes
from workers.sandbox import Ending
from workers.settings import ROOT, child_environment


def alive(pid: int) -> bool:
    """Tell whether a process is there and no mere zombie."""
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False


def left_alive(pids: list[int]) -> list[int]:
    """Return which of these still live; wait for them, but not for long."""
    assert pids
    deadline = time.monotonic() + 5
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    return [pid for pid in pids if alive(pid)]


GRANDCHILDREN = """
    def note(pid):
        with open("pids", "a") as stream:
            stream.write(f"{pid}\\\\n")
    note(os.getpid())
    sleeper = [sys.executable, "-c", "import signal, time; "
               "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"]
    note(subprocess.Popen(sleeper).pid)
    note(subprocess.Popen(sleeper, start_new_session=SESSION).pid)
    os.write(progress_fd, b'{"ready": true}\\\\n')
"""


@pytest.mark.parametrize("session", [False, True], ids=["same-session", "own-session"])
def test_grandchildren_die_with_a_stopped_child(bench: Bench, session: bool) -> None:  # noqa: FBT001 - a case
    code = (
        GRANDCHILDREN.replace("SESSION", str(session)).replace("\\\\", "\\") + "    time.sleep(60)"
    )
    bench.run(code, stop=lambda: "cancelled" if bench.progress else None)
    assert left_alive(bench.pids()) == []


def test_grandchildren_die_with_a_child_that_ends_by_itself(bench: Bench) -> None:
    code = GRANDCHILDREN.replace("SESSION", "False").replace("\\\\", "\\")
    outcome = bench.run(code)
    assert outcome.ending is Ending.EXITED
    assert outcome.seconds < 30
    assert left_alive(bench.pids()) == []


def test_an_interrupted_watch_leaves_nothing_alive(bench: Bench) -> None:
    class Interrupted(Exception):
        pass

    def stop() -> str | None:
        if bench.progress:
            raise Interrupted
        return None

    code = GRANDCHILDREN.replace("SESSION", "False").replace("\\\\", "\\") + "    time.sleep(60)"
    with pytest.raises(Interrupted):
        bench.run(code, stop=stop)
    assert left_alive(bench.pids()) == []


CHILD = """
import os, sys, time
from enginefarm.confinement import die_with
die_with(int(sys.argv[1]))
with open("pids.part", "w") as stream:
    stream.write(str(os.getpid()))
os.rename("pids.part", "pids")
time.sleep(60)
"""
PARENT = """
import sys
from pathlib import Path
from workers import sandbox
from workers.joblog import JobLog
from workers.settings import child_environment
here = Path.cwd()
sandbox.run(
    [sys.executable, "child.py", "{parent}"], cwd=here,
    environment=child_environment(here), limits=sandbox.Limits(60, 60),
    log=JobLog(1000), on_progress=print, stop=lambda: None,
)
"""


def test_a_child_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Kill the parent as a crash would: without a chance to clean up."""
    (tmp_path / "child.py").write_text(CHILD)
    (tmp_path / "parent.py").write_text(PARENT)
    parent = subprocess.Popen(
        [sys.executable, "parent.py"], cwd=tmp_path, env=child_environment(tmp_path)
    )
    noted = tmp_path / "pids"
    deadline = time.monotonic() + 20
    while not noted.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child = int(noted.read_text())
    assert alive(child)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert left_alive([child]) == []


def test_a_child_whose_parent_is_gone_already_leaves_at_once(tmp_path: Path) -> None:
    code = "from enginefarm.confinement import die_with; die_with(1 << 22); print('still here')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=child_environment(tmp_path),
    )
    assert done.returncode != 0
    assert "still here" not in done.stdout


def open_descriptors() -> int:
    """Count this process's open files."""
    return len(list(Path("/proc/self/fd").iterdir()))


def test_descriptors_are_given_back(bench: Bench) -> None:
    bench.run("pass")
    before = open_descriptors()
    for _ in range(5):
        bench.run("pass")
    assert open_descriptors() == before


def test_a_tree_of_processes_is_seen_whole(tmp_path: Path) -> None:
    sleeper = "import time; time.sleep(60)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {sleeper!r}])"
    child = subprocess.Popen([sys.executable, "-c", code])
    try:
        deadline = time.monotonic() + 20
        while not processes.descendants(child.pid):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert processes.tree_memory(child.pid) > 1 << 20
    finally:
        processes.kill_all([*processes.descendants(child.pid), child.pid])
        child.wait()
