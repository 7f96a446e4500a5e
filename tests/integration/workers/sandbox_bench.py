"""Runs scripts in the sandbox, as the executor runs a job's child."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

from workers import sandbox
from workers.joblog import JobLog
from workers.sandbox import Limits, Outcome
from workers.settings import child_environment

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
