"""Become another program, one that cannot outlive its parent: ``python -m localfarm.launch``.

The wish to die with the parent is set here, after the fork and before the exec, so that no Python
code runs in a forked copy of a process that may have threads. The kernel sends the signal when the
*thread* that started this process ends, so start processes from a thread that stays.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pwd
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_CLONE_NEWUSER = 0x10000000
_UNPRIVILEGED = "nobody"


def main(arguments: list[str]) -> None:
    """Read the arguments, bind this process to its parent, and become the program."""
    parser = argparse.ArgumentParser(prog="localfarm.launch")
    life = parser.add_mutually_exclusive_group(required=True)
    life.add_argument("--parent", type=int, help="end when this process, the parent, ends")
    life.add_argument("--detach", action="store_true", help="outlive the parent after all")
    parser.add_argument("--death-signal", type=int, default=int(signal.SIGKILL))
    parser.add_argument("--cwd", type=Path, required=True)
    parser.add_argument("--not-root", type=Path, nargs="*", metavar="PATH")
    parser.add_argument("argv", nargs="+")
    options = parser.parse_args(arguments)
    os.umask(0o077)
    if options.not_root is not None and os.geteuid() == 0:
        _leave_root(options.not_root)
    if options.detach and os.fork() > 0:
        os._exit(0)
    if not options.detach:
        _die_with_parent(options.parent, options.death_signal)
    os.chdir(options.cwd)
    try:
        os.execvp(options.argv[0], options.argv)  # noqa: S606 - no shell is wanted
    except PermissionError as error:
        sys.exit(f"{options.argv[0]} cannot be run by user {os.geteuid()}: {error.strerror}")


def _die_with_parent(parent: int, death_signal: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, death_signal) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # The parent may have ended before the wish was set.
    if os.getppid() != parent:
        sys.exit("the parent has ended")


def _leave_root(paths: list[Path]) -> None:
    """Run as an unprivileged user: PostgreSQL refuses to run as root.

    A user namespace leaves every file where and whose it is. Where the kernel forbids one (in
    most containers) the paths are given to the unprivileged user instead.
    """
    user = pwd.getpwnam(_UNPRIVILEGED)
    owned = all(path.stat().st_uid == 0 for path in paths)
    if owned and _map_root_to(user.pw_uid, user.pw_gid):
        return
    for path in paths:
        os.chown(path, user.pw_uid, user.pw_gid)
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


def _map_root_to(uid: int, gid: int) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER) != 0:
        return False
    Path("/proc/self/uid_map").write_text(f"{uid} 0 1", encoding="ascii")
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{gid} 0 1", encoding="ascii")
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
