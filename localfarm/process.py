"""A process the local farm started: bound to its parent's life, with its own log and group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from localfarm.settings import ROOT

_TAIL_BYTES = 64 << 10


@dataclass
class Child:
    """One running child; ended by :meth:`stop`, or by the kernel when its parent ends."""

    name: str
    log: Path
    popen: subprocess.Popen[bytes]
    stop_signal: signal.Signals = signal.SIGTERM
    stop_group: bool = False

    @property
    def pid(self) -> int:
        """Return the process id, which is also that of its group."""
        return self.popen.pid

    def exit_code(self) -> int | None:
        """Return how it ended, or None while it runs."""
        return self.popen.poll()

    def ask_to_stop(self) -> None:
        """Send the polite signal to the process, or to its group if that is how it ends."""
        if self.popen.poll() is not None:
            return
        if self.stop_group:
            os.killpg(self.pid, self.stop_signal)
        else:
            self.popen.send_signal(self.stop_signal)

    def stop(self, grace_s: float) -> None:
        """End it politely, and its whole group for certain once the grace is over."""
        self.ask_to_stop()
        try:
            self.popen.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the whole group at once."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # It ended by itself in between.
        self.popen.wait()

    def tail(self, lines: int = 20) -> list[str]:
        """Return the last lines of its log."""
        return tail(self.log, lines)


def spawn(  # noqa: PLR0913 - all but three are by name and have defaults
    name: str,
    argv: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str],
    cwd: Path = ROOT,
    death_signal: signal.Signals = signal.SIGKILL,
    stop_signal: signal.Signals = signal.SIGTERM,
    not_root: Sequence[Path] = (),
) -> Child:
    """Start ``argv`` in its own session, writing to ``log``; it ends when this thread ends.

    Given ``not_root``, it never runs as root; it can write to those paths.
    """
    options = ["--parent", str(os.getpid()), "--death-signal", str(int(death_signal))]
    if not_root:
        options += ["--not-root", *map(str, not_root)]
    popen = _launch([*options, "--cwd", str(cwd)], argv, log, environment)
    return Child(name, log, popen, stop_signal)


def detach(argv: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> None:
    """Start ``argv`` so that it outlives this process; it must know itself when to end."""
    _launch(["--detach", "--cwd", str(ROOT)], argv, log, environment).wait()


def _launch(
    options: Sequence[str], argv: Sequence[str], log: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with log.open("ab") as sink:
        return subprocess.Popen(
            [sys.executable, "-m", "localfarm.launch", *options, "--", *argv],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=dict(environment),
            start_new_session=True,
        )


def tail(log: Path, lines: int) -> list[str]:
    """Return the last ``lines`` of a file that may be long, or nothing where there is none."""
    if not log.exists():
        return []
    with log.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - _TAIL_BYTES))
        return stream.read().decode("utf-8", "replace").splitlines()[-lines:]
