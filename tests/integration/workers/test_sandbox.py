"""The sandbox on real processes: every way to end is told apart, and nothing is left alive."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from workers import processes, sandbox
from workers.joblog import JobLog
from workers.sandbox import Ending, Limits, Outcome
from workers.settings import ROOT, child_environment

WIDE = Limits(running_s=60, silent_s=60)


class Bench:
    """Runs scripts in the sandbox and keeps what they said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = JobLog(1 << 20)
        self.progress: list[dict[str, object]] = []

    def run(
        self,
        code: str,
        limits: Limits = WIDE,
        stop: Callable[[], str | None] = lambda: None,
    ) -> Outcome:
        """Run a script; ``progress_fd`` is defined in it."""
        script = self.folder / "script.py"
        head = "import os, signal, subprocess, sys, time\nprogress_fd = int(sys.argv[1])\n"
        script.write_text(head + textwrap.dedent(code))
        return sandbox.run(
            [sys.executable, str(script), "{progress_fd}"],
            cwd=self.folder,
            environment=child_environment(self.folder),
            limits=limits,
            log=self.log,
            on_progress=lambda said: self.progress.append(dict(said)),
            stop=stop,
        )

    def pids(self) -> list[int]:
        """Return the process ids that a script noted in the file ``pids``."""
        return [int(line) for line in (self.folder / "pids").read_text().split()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Return a bench in a folder of its own."""
    return Bench(tmp_path)


def alive(pid: int) -> bool:
    """Tell whether a process is there and no mere zombie."""
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False


def assert_gone(pids: list[int]) -> None:
    """Wait, but not for long, until none of these is alive."""
    assert pids
    deadline = time.monotonic() + 5
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "a process was left alive"
        time.sleep(0.02)


def test_a_child_that_ends_by_itself_is_heard_and_counted(bench: Bench) -> None:
    outcome = bench.run("""
        print("hello")
        print("trouble", file=sys.stderr)
        os.write(progress_fd, b'{"fraction": 0.5, "phase": "a"}\\nnonsense\\n{"fraction": 1}\\n')
        sys.exit(3)
    """)
    assert (outcome.ending, outcome.returncode, outcome.signal) == (Ending.EXITED, 3, None)
    assert bench.progress == [{"fraction": 0.5, "phase": "a"}, {"fraction": 1}]
    assert b"hello" in bench.log.render()
    assert b"trouble" in bench.log.render()


def test_what_is_said_just_before_the_end_is_not_lost(bench: Bench) -> None:
    outcome = bench.run("sys.stdout.write('x' * 60000 + 'END'); sys.stdout.flush(); os._exit(0)")
    assert outcome.ending is Ending.EXITED
    assert bench.log.render().endswith(b"END")


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL"])
def test_a_child_that_dies_of_a_signal_is_told_from_one_that_exits(bench: Bench, name: str) -> None:
    outcome = bench.run(f"os.kill(os.getpid(), signal.{name})")
    assert (outcome.ending, outcome.signal) == (Ending.KILLED, name)


def test_a_child_that_runs_too_long_is_ended(bench: Bench) -> None:
    limits = Limits(running_s=0.6, silent_s=60)
    outcome = bench.run("while True: print('busy', flush=True); time.sleep(0.05)", limits)
    assert outcome.ending is Ending.RUNNING_LIMIT
    assert outcome.seconds < 10


def test_a_child_that_falls_silent_is_ended(bench: Bench) -> None:
    limits = Limits(running_s=60, silent_s=0.6)
    assert bench.run("time.sleep(60)", limits).ending is Ending.SILENT_LIMIT


@pytest.mark.parametrize("voice", ["print('.', flush=True)", "os.write(progress_fd, b'{}\\n')"])
def test_a_word_on_either_pipe_is_a_sign_of_life(bench: Bench, voice: str) -> None:
    limits = Limits(running_s=60, silent_s=1.5)
    outcome = bench.run(f"for _ in range(8): {voice}; time.sleep(0.4)", limits)
    assert outcome.ending is Ending.EXITED


def test_a_child_that_takes_too_much_memory_is_ended_and_its_peak_told(bench: Bench) -> None:
    limits = Limits(running_s=60, silent_s=60, memory_bytes=150 << 20)
    outcome = bench.run("held = b'x' * (400 << 20); time.sleep(60)", limits)
    assert outcome.ending is Ending.MEMORY_LIMIT
    assert outcome.peak_memory_bytes > 150 << 20


def test_memory_of_grandchildren_counts(bench: Bench) -> None:
    limits = Limits(running_s=60, silent_s=60, memory_bytes=200 << 20)
    outcome = bench.run(
        """
        code = "held = b'x' * (300 << 20); import time; time.sleep(60)"
        subprocess.run([sys.executable, "-c", code])
        """,
        limits,
    )
    assert outcome.ending is Ending.MEMORY_LIMIT


def test_a_stop_lets_the_child_leave_in_order(bench: Bench) -> None:
    outcome = bench.run(
        """
        def leave(*_):
            print("leaving in order", flush=True)
            sys.exit(0)
        signal.signal(signal.SIGTERM, leave)
        os.write(progress_fd, b'{"ready": true}\\n')
        time.sleep(60)
        """,
        stop=lambda: "cancelled" if bench.progress else None,
    )
    assert (outcome.ending, outcome.stop_reason) == (Ending.STOPPED, "cancelled")
    assert b"leaving in order" in bench.log.render()


def test_a_child_that_ignores_the_stop_is_killed_within_five_seconds(bench: Bench) -> None:
    heard: list[float] = []

    def stop() -> str | None:
        if bench.progress and not heard:
            heard.append(time.monotonic())
        return "cancelled" if heard else None

    outcome = bench.run(
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(progress_fd, b'{"ready": true}\\n')
        time.sleep(60)
        """,
        stop=stop,
    )
    assert (outcome.ending, outcome.signal) == (Ending.STOPPED, "SIGKILL")
    assert time.monotonic() - heard[0] < 5


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
    assert_gone(bench.pids())


def test_grandchildren_die_with_a_child_that_ends_by_itself(bench: Bench) -> None:
    code = GRANDCHILDREN.replace("SESSION", "False").replace("\\\\", "\\")
    outcome = bench.run(code)
    assert outcome.ending is Ending.EXITED
    assert outcome.seconds < 30
    assert_gone(bench.pids())


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
    assert_gone(bench.pids())


def test_a_child_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Kill the parent as a crash would: without a chance to clean up."""
    (tmp_path / "child.py").write_text(
        textwrap.dedent("""
        import os, sys, time
        from workers.confinement import die_with
        die_with(int(sys.argv[1]))
        with open("pids.part", "w") as stream:
            stream.write(str(os.getpid()))
        os.rename("pids.part", "pids")
        time.sleep(60)
        """)
    )
    (tmp_path / "parent.py").write_text(
        textwrap.dedent("""
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
        """)
    )
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
    assert_gone([child])


def test_a_child_whose_parent_is_gone_already_leaves_at_once(tmp_path: Path) -> None:
    code = "from workers.confinement import die_with; die_with(1 << 22); print('still here')"
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


def test_files_of_strangers_are_never_imported(bench: Bench) -> None:
    """A model's external data may be called json.py; the child's folder is not on its path."""
    (bench.folder / "json.py").write_text("raise SystemExit('imported a stranger')")
    command = sandbox.child_command(bench.folder)
    outcome = sandbox.run(
        command,
        cwd=bench.folder,
        environment=child_environment(bench.folder),
        limits=WIDE,
        log=bench.log,
        on_progress=lambda _said: None,
        stop=lambda: None,
    )
    said = bench.log.render()
    assert b"imported a stranger" not in said
    assert b"job.json" in said  # it came as far as reading the job that is not there
    assert outcome.returncode != 0


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
