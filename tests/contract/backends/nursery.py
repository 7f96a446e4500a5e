"""Children that begin where a job's child is once it has imported all but the runtimes.

These imports take most of the time of a child that builds a small model, and its runtime is not
among them: each child loads that for itself, into a process that ends with its job, as on a node.
That a child starts from nothing is shown where a node runs one, in ``tests/integration/workers``.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from workers.sandbox import Ending, Outcome
from workers.settings import child_environment

ROOT = Path(__file__).parents[3]
MOST_SECONDS = 120
# What a child may import before it knows its job. A runtime starts threads, which no fork takes.
FIRST = (
    "workers.child",
    "workers.stages",
    "workers.backends.graph",
    "workers.checking.merging",
    "workers.repair.registry",
)
RUNTIMES = {"onnxruntime", "tensorrt", "tensorrt_rtx", "tensorrt_rtx_bindings"}


@cache
def nursery() -> Nursery:
    """Return this process's own, which ends with it."""
    return Nursery()


class Nursery:
    """A process that has imported what children need, and forks one for each job."""

    def __init__(self) -> None:
        """Start it; it is ready when it takes the first job."""
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(MOST_SECONDS)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=ROOT,
                env=child_environment(ROOT),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        atexit.register(self._close)

    def run(self, scratch: Path, log: Path, progress: Path) -> Outcome:
        """Run the job of ``scratch`` to its end; what it prints and says goes to the two files."""
        began = time.monotonic()
        with log.open("wb") as sink, progress.open("wb") as voice:
            fds = [sink.fileno(), voice.fileno()]
            socket.send_fds(self._channel, [str(scratch).encode()], fds)
            status, peak = json.loads(self._channel.recv(1 << 10))
        name = signal.Signals(-status).name if status < 0 else None
        ending = Ending.EXITED if name is None else Ending.KILLED
        return Outcome(ending, status, name, time.monotonic() - began, peak)

    def _close(self) -> None:
        self._channel.close()
        self._process.wait(MOST_SECONDS)


def serve(channel: socket.socket) -> None:
    """Fork a child for each job that comes, until nobody is there any more."""
    while True:
        message, fds, _, _ = socket.recv_fds(channel, 1 << 12, 2)
        if not message:
            return
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            channel.close()
            _become(Path(message.decode()), parent, *fds)
        for fd in fds:
            os.close(fd)
        _, status, used = os.wait4(child, 0)
        told = [os.waitstatus_to_exitcode(status), used.ru_maxrss << 10]
        channel.send(json.dumps(told).encode())


def _become(scratch: Path, parent: int, log: int, progress: int) -> None:
    """Be the child that ``workers.child`` is, in its folder, session and environment."""
    from workers import child

    status = 1
    try:
        os.setsid()
        signal.alarm(MOST_SECONDS)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(scratch)
        os.environ.update(child_environment(scratch))
        status = child.main([str(scratch), "--parent", str(parent), "--progress-fd", str(progress)])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        os._exit(status)


if __name__ == "__main__":
    for name in FIRST:
        __import__(name)
    loaded = RUNTIMES & set(sys.modules)
    if loaded:
        sys.exit(f"a runtime would be in each child before its job: {loaded}")
    serve(socket.socket(fileno=int(sys.argv[1])))
