"""The sandbox on real processes: every way to end is told apart, and nothing is left alive."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.workers.sandbox_bench import WIDE, Bench
from workers import sandbox
from workers.sandbox import Ending, Limits
from workers.settings import child_environment

CGROUP = Path("/sys/fs/cgroup")


@pytest.fixture
def little_memory(tmp_path: Path) -> Iterator[Path]:
    """Return a control group, of either version, in which 100 MiB are all there is."""
    unified = (CGROUP / "cgroup.controllers").exists()
    group = (CGROUP if unified else CGROUP / "memory") / f"{tmp_path.name}-{os.getpid()}"
    limit = "memory.max" if unified else "memory.limit_in_bytes"
    try:
        if unified:
            (CGROUP / "cgroup.subtree_control").write_text("+memory")
        group.mkdir()
    except OSError as error:
        pytest.skip(f"not run: needs leave to make a control group ({error})")
    (group / limit).write_text(str(100 << 20))
    yield group
    group.rmdir()


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


def test_a_child_that_the_kernel_kills_for_memory_is_told_from_other_kills(
    bench: Bench, little_memory: Path
) -> None:
    outcome = bench.run(f"""
        open({str(little_memory / "cgroup.procs")!r}, "w").write(str(os.getpid()))
        held = b"x" * (400 << 20)
    """)

    assert (outcome.ending, outcome.signal) == (Ending.OUT_OF_MEMORY, "SIGKILL")


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
