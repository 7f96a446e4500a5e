"""Run one command as a fresh child and tell how it ended.

The child has its own session and process group, so a kill reaches all of it. Two clocks run:
``running_s`` for the whole, ``silent_s`` since it last said anything (a line of log or of
progress). Memory is watched as resident size of the whole tree: a limit on addresses would break
runtimes that reserve far more than they use. What the child prints is kept up to a cap.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from workers import processes
from workers.joblog import JobLog

TICK_S = 0.2
GRACE_S = 3.0
READ_BYTES = 1 << 16
MAX_PROGRESS_LINE = 1 << 16


class Ending(StrEnum):
    """How a child ended."""

    EXITED = "exited"
    KILLED = "killed"
    OUT_OF_MEMORY = "out_of_memory"
    MEMORY_LIMIT = "memory_limit"
    RUNNING_LIMIT = "running_limit"
    SILENT_LIMIT = "silent_limit"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Limits:
    """What a child may use."""

    running_s: float
    silent_s: float
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Outcome:
    """How it went. ``signal`` is the name of the signal it died of, if it did."""

    ending: Ending
    returncode: int
    signal: str | None
    seconds: float
    peak_memory_bytes: int
    stop_reason: str | None = None


Progress = Callable[[Mapping[str, object]], None]
Stop = Callable[[], str | None]


def run(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    limits: Limits,
    log: JobLog,
    on_progress: Progress,
    stop: Stop,
) -> Outcome:
    """Run ``command`` to its end, whatever that is; nothing of it is alive afterwards.

    ``{progress_fd}`` and ``{parent}`` in the command are filled in. ``stop`` is asked several
    times a second and gives the reason to end the child.
    """
    read_fd, write_fd = os.pipe()
    try:
        child = subprocess.Popen(
            _filled(command, write_fd),
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(write_fd,),
            start_new_session=True,
        )
    except BaseException:
        os.close(read_fd)
        raise
    finally:
        os.close(write_fd)
    watch = _Watch(child, read_fd, limits, log, on_progress)
    try:
        return watch.until_end(stop)
    finally:
        watch.close()


def _filled(command: Sequence[str], progress_fd: int) -> list[str]:
    known = {"{progress_fd}": str(progress_fd), "{parent}": str(os.getpid())}
    return [known.get(part, part) for part in command]


class _Watch:
    def __init__(
        self,
        child: subprocess.Popen[bytes],
        progress_fd: int,
        limits: Limits,
        log: JobLog,
        on_progress: Progress,
    ) -> None:
        self._child = child
        self._progress_fd = progress_fd
        self._limits = limits
        self._log = log
        self._on_progress = on_progress
        self._partial = b""
        self._began = self._heard = time.monotonic()
        self._peak = 0
        self._oom_before = processes.oom_kills()
        self._selector = selectors.DefaultSelector()
        assert child.stdout is not None  # noqa: S101 - a pipe was asked for
        for fd, read in ((child.stdout.fileno(), self._on_log), (progress_fd, self._on_line)):
            os.set_blocking(fd, False)
            self._selector.register(fd, selectors.EVENT_READ, read)

    def until_end(self, stop: Stop) -> Outcome:
        """Listen until the child ends by itself or must."""
        ending, reason = Ending.EXITED, None
        while self._child.poll() is None:
            self._listen(TICK_S)
            self._peak = max(self._peak, processes.tree_memory(self._child.pid))
            reason = stop()
            over = self._limit_passed()
            if reason is not None or over is not None:
                ending = Ending.STOPPED if reason is not None else over or Ending.STOPPED
                self._end_child()
                break
        # Whoever else is left of the group must not outlive the job, nor keep the pipes open.
        processes.kill_group(self._child.pid, signal.SIGKILL)
        self._drain()
        return self._outcome(ending, reason)

    def _limit_passed(self) -> Ending | None:
        now = time.monotonic()
        if self._limits.memory_bytes is not None and self._peak > self._limits.memory_bytes:
            return Ending.MEMORY_LIMIT
        if now - self._began > self._limits.running_s:
            return Ending.RUNNING_LIMIT
        if now - self._heard > self._limits.silent_s:
            return Ending.SILENT_LIMIT
        return None

    def _end_child(self) -> None:
        """Ask it to end, then kill whatever is left of its tree."""
        tree = processes.descendants(self._child.pid)
        processes.kill_group(self._child.pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        while self._child.poll() is None and time.monotonic() < deadline:
            self._listen(0.05)
        tree += processes.descendants(self._child.pid)
        processes.kill_group(self._child.pid, signal.SIGKILL)
        processes.kill_all(tree)
        self._child.wait()

    def _listen(self, timeout: float) -> None:
        if not self._selector.get_map():
            time.sleep(timeout)
            return
        for key, _ in self._selector.select(timeout):
            data = b""
            with suppress(BlockingIOError):
                data = os.read(key.fd, READ_BYTES)
            if not data:
                self._selector.unregister(key.fd)
                continue
            self._heard = time.monotonic()
            key.data(data)

    def _drain(self) -> None:
        deadline = time.monotonic() + 1.0
        while self._selector.get_map() and time.monotonic() < deadline:
            self._listen(0.05)

    def _on_log(self, data: bytes) -> None:
        self._log.write(data)

    def _on_line(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._partial = self._partial[-MAX_PROGRESS_LINE:]
        for line in lines:
            try:
                said = json.loads(line)
            except ValueError:
                continue  # a child that scribbles on its progress pipe only loses its progress
            if isinstance(said, dict):
                self._on_progress(said)

    def _outcome(self, ending: Ending, reason: str | None) -> Outcome:
        code = self._child.wait()
        name = _signal_name(code)
        if ending is Ending.EXITED and name is not None:
            oom = name == "SIGKILL" and processes.oom_kills() > self._oom_before
            ending = Ending.OUT_OF_MEMORY if oom else Ending.KILLED
        return Outcome(
            ending=ending,
            returncode=code,
            signal=name,
            seconds=time.monotonic() - self._began,
            peak_memory_bytes=self._peak,
            stop_reason=reason,
        )

    def close(self) -> None:
        """Leave nothing behind, also when the watching itself was interrupted."""
        if self._child.poll() is None:
            tree = processes.descendants(self._child.pid)
            processes.kill_group(self._child.pid, signal.SIGKILL)
            processes.kill_all(tree)
            self._child.wait()
        self._selector.close()
        os.close(self._progress_fd)
        if self._child.stdout is not None:
            self._child.stdout.close()


def _signal_name(returncode: int) -> str | None:
    if returncode >= 0:
        return None
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"


def child_command(scratch: Path) -> list[str]:
    """Return the command that runs a job whose ``job.json`` is in ``scratch``.

    ``-P``: the folder it runs in holds a stranger's files, which must never be imported.
    """
    return [
        sys.executable,
        "-P",
        "-m",
        "workers.child",
        str(scratch),
        "--parent",
        "{parent}",
        "--progress-fd",
        "{progress_fd}",
    ]
