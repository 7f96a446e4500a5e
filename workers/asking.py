"""Ask ``python -m workers.probe`` in a process of its own, with the environment that children have.

What crashes there takes nobody with it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from workers.settings import child_environment

TIMEOUT_S = 120
"""How long one backend, tool or library may take to load."""


def ask(arguments: Sequence[str]) -> str:
    """Return the last line that a probe of one thing prints; what it says of errors is kept.

    Raises:
        CalledProcessError: it ended with another status, or by a signal.
        TimeoutExpired: it did not end in time.
    """
    return _run(arguments, stderr=subprocess.PIPE, timeout=TIMEOUT_S)


def ask_whole(arguments: Sequence[str], seconds: float | None) -> str:
    """Return the last line that a probe of all of this machine prints; its log is the caller's.

    Raises:
        CalledProcessError: it ended with another status, or by a signal.
        TimeoutExpired: it did not end within so many seconds.
    """
    return _run(arguments, stderr=None, timeout=seconds)


def _run(arguments: Sequence[str], stderr: int | None, timeout: float | None) -> str:
    with tempfile.TemporaryDirectory(prefix="probe-") as folder:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "workers.probe", *arguments],
            check=True,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=timeout,
            cwd=folder,
            env=child_environment(Path(folder)),
        )
    return (done.stdout.strip().splitlines() or [""])[-1]


def last_words(error: subprocess.CalledProcessError) -> str:
    """Return how a process ended, and the last that it said."""
    lines = str(error.stderr).strip().splitlines()
    return f"status {error.returncode}: {lines[-1] if lines else 'it said nothing'}"
