"""A node that is told to leave tells its jobs when the grace is over, each once."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from workers.leaving import Leaving


@pytest.fixture
def job() -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that stands for a slot's."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


def test_a_job_is_told_when_the_grace_is_over(job: subprocess.Popen[bytes]) -> None:
    leaving = Leaving(0.0, lambda: [job.pid])

    leaving.begin()
    leaving.begin()  # a second signal changes nothing

    assert job.wait(20) == -signal.SIGTERM
