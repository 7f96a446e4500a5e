"""Ask ``python -m workers.probe`` in a process of its own, with the environment that children have.

What crashes there takes nobody with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
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
    return _run(arguments, alone=True, timeout=TIMEOUT_S)


def ask_whole(arguments: Sequence[str], seconds: float | None) -> str:
    """Return the last line that a probe of all of this machine prints; its log is the caller's.

    Raises:
        CalledProcessError: it ended with another status, or by a signal.
        TimeoutExpired: it did not end within so many seconds.
    """
    return _run(arguments, alone=False, timeout=seconds)


def _run(arguments: Sequence[str], *, alone: bool, timeout: float | None) -> str:
    """Run a probe; what one that is ``alone`` leaves behind is ended with it.

    It writes to files: a process that it leaves behind would hold a pipe open.
    """
    words = [sys.executable, "-P", "-m", "workers.probe", *arguments]
    with tempfile.TemporaryDirectory(prefix="probe-") as folder:
        said, wrong = Path(folder, "said"), Path(folder, "wrong")
        with said.open("wb") as out, wrong.open("wb") as err:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err if alone else None,
                cwd=folder,
                env=child_environment(Path(folder)),
                start_new_session=alone,
            )
        try:
            status = process.wait(timeout)
        finally:
            _end(process, alone=alone)
        texts = [path.read_bytes().decode(errors="replace").strip() for path in (said, wrong)]
        if status != 0:
            raise subprocess.CalledProcessError(status, words, *texts)
    return (texts[0].splitlines() or [""])[-1]


def _end(process: subprocess.Popen[bytes], *, alone: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        if alone:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def last_words(error: subprocess.CalledProcessError) -> str:
    """Return how a process ended, and the last that it said."""
    lines = str(error.stderr).strip().splitlines()
    return f"status {error.returncode}: {lines[-1] if lines else 'it said nothing'}"
