"""Processes as /proc shows them: a tree's memory, its members, and killing all of it."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")
_OOM_COUNTERS = (Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat"))


def children_of() -> dict[int, list[int]]:
    """Return every process's children."""
    found: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError, IndexError, ValueError):
            # The command's name stands in brackets and may hold anything; the rest follows it.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            found.setdefault(int(fields[1]), []).append(int(entry.name))
    return found


def descendants(pid: int) -> list[int]:
    """Return all processes below ``pid``."""
    tree, found, open_ = children_of(), list[int](), [pid]
    while open_:
        below = tree.get(open_.pop(), [])
        found += below
        open_ += below
    return found


def tree_memory(pid: int) -> int:
    """Return the resident bytes of a process and all below it."""
    return sum(_resident(member) for member in (pid, *descendants(pid)))


def _resident(pid: int) -> int:
    try:
        pages = int((_PROC / str(pid) / "statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def kill_group(group: int, which: signal.Signals) -> None:
    """Signal a whole process group; one that is gone is fine."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, which)


def kill_all(pids: list[int]) -> None:
    """Kill processes one by one: those that left the group."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that it can be found."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_descendants() -> None:
    """Kill everything below this process: what a job left behind, in whatever session."""
    kill_all(descendants(os.getpid()))


def oom_kills() -> int:
    """Return how often the kernel has killed for memory here; 0 where it does not tell."""
    for path in _OOM_COUNTERS:
        with suppress(OSError, ValueError):
            for line in path.read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
    return 0
