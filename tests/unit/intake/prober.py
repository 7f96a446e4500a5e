"""Stands in for a reader: confined as one is, it tells what it holds and tries what it must not.

Its standard input is read as the name of what to do; standing in the reader's place it is started,
listened to and ended as a reader is.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def refused(attempt: Callable[[], object]) -> bool:
    """Tell whether the system refuses something."""
    try:
        attempt()
    except OSError:
        return True
    return False


def holdings() -> dict[str, object]:
    """Return what this process was given by the one that started it."""
    return {
        "environment": sorted(Path("/proc/self/environ").read_text().strip("\0").split("\0")),
        "descriptors": _descriptors(),
        "group": os.getpgid(0) == os.getpid() == os.getsid(0),
        "path": sys.path,
        "cwd": str(Path.cwd()),
    }


def _descriptors() -> list[str]:
    found = []
    for each in sorted(Path("/proc/self/fd").iterdir(), key=lambda path: int(path.name)):
        with suppress(FileNotFoundError):  # the last one was the folder's own
            found.append(str(each.readlink()))
    return found


def abilities() -> dict[str, bool]:
    """Return what a confined process is refused, though it gives up all that it was given."""
    told = {"write": refused(lambda: os.write(0, b"x")), "copy": refused(lambda: os.dup(0))}
    for each in (0, 2):
        os.close(each)
    return told | {
        "open": refused(lambda: os.open("/etc/hostname", os.O_RDONLY)),
        "socket": refused(socket.socket),
        "start": refused_value(_start),
        "core": resource.getrlimit(resource.RLIMIT_CORE) == (0, 0),
        "raise": refused_value(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))),
    }


def _start() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)


def refused_value(attempt: Callable[[], object]) -> bool:
    """Tell whether a limit cannot be raised; root may, and then it is no limit of ours."""
    if os.geteuid() == 0:
        return True
    try:
        attempt()
    except (OSError, ValueError):
        return True
    return False


def babble() -> None:
    """Say more than anybody listens to."""
    while True:
        os.write(1, b"x" * (1 << 16))


def spin() -> None:
    """Compute for ever."""
    while True:
        pass


def abort() -> None:
    """End as a library in Rust does to which memory is refused."""
    os.write(2, b"memory allocation of 134217728 bytes failed\n")
    os.abort()


WISHES: dict[str, Callable[[], object]] = {
    "babble": babble,
    "spin": spin,
    "abort": abort,
    "sleep": lambda: time.sleep(120),
    "starve": lambda: os.write(1, bytes(1 << 30)),
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "lie": lambda: os.write(1, b'\nanswer {"model": {"inputs": "all of them"}}\n'),
    "say nothing": lambda: None,
}


def main() -> None:
    """Begin as a reader does, then do what standard input says."""
    sys.path.append(str(ROOT))
    from enginefarm.confinement import die_with
    from intake.child import confine
    from intake.findings import READY, Question

    told = holdings()
    question = Question.model_validate_json(sys.argv[1])
    die_with(question.parent)
    wish = sys.stdin.readline().strip()
    if wish == "not ready":
        sys.exit("ImportError: a part of the farm is missing")
    confine(question)
    os.write(1, READY)
    if wish == "tell":
        os.write(1, json.dumps(told | {"refused": abilities()}).encode())
    else:
        WISHES[wish]()


if __name__ == "__main__":
    main()
