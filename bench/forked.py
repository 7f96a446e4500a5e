"""Run stages one after the other, each in a fork of a process that has the runtimes loaded already.

A node starts a fresh interpreter for each job; that takes seconds, and a measurement of hundreds of
small builds would be of nothing else. A crash or a hang ends the fork and is told as on a node.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from enginefarm.errors import Failure
from workers import child, sandbox, verdict
from workers.childjob import RESULT_FILE, ChildJob, ChildResult, write_document
from workers.reporting import PipeSink

LIMITS = sandbox.Limits(running_s=300, silent_s=300)


def run(job: ChildJob, scratch: Path) -> tuple[ChildResult | None, Failure | None]:
    """Run a stage; return its result, and why it failed if it did."""
    sys.stdout.flush()
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _be_the_child(job, scratch)
    ended = _wait(pid, began + LIMITS.running_s)
    path = scratch / RESULT_FILE
    if ended is sandbox.Ending.EXITED and path.exists():
        result = ChildResult.model_validate_json(path.read_bytes())
        return result, result.failure
    outcome = sandbox.Outcome(
        ending=ended,
        returncode=1,
        signal="SIGSEGV" if ended is sandbox.Ending.KILLED else None,
        seconds=time.monotonic() - began,
        peak_memory_bytes=0,
    )
    return None, verdict.failure_of(outcome, LIMITS) or verdict.no_result(outcome)


def _be_the_child(job: ChildJob, scratch: Path) -> None:
    log = os.open(scratch / "log.txt", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    write_document(scratch / RESULT_FILE, child.run(job, PipeSink(None)))
    os._exit(0)


def _wait(pid: int, until: float) -> sandbox.Ending:
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return sandbox.Ending.KILLED if os.WIFSIGNALED(status) else sandbox.Ending.EXITED
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return sandbox.Ending.RUNNING_LIMIT
