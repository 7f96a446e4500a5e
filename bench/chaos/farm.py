"""The farm that is going to suffer: processes of its own in a folder of its own.

It is ``python -m localfarm up``, which starts again whatever ends. Only processes below it are ever
signalled, so a number that the system has given to somebody else is never hit.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from localfarm.folder import Folder, Running
from localfarm.process import Child, spawn
from localfarm.services import Services
from localfarm.settings import PREFIX, inherited_environment

POLICY = {
    "lease_s": 8,
    "heartbeat_s": 1,
    "node_heartbeat_s": 2,
    "node_silent_s": 10,
    "publish_lease_s": 6,
    "ring_again_s": 4,
    "retry_backoff_s": 0.2,
    # Here every failure is the killer's: neither a job nor the one node may be given up for it.
    "max_attempts": 50,
    "node_faults": 1000,
}
Say = Callable[[str], None]
_RESTARTS = 1_000_000
_READY_S = 120.0
_END_S = 60.0


@dataclass(frozen=True)
class Victim:
    """A running farm, by the process that tends it."""

    folder: Folder
    faults: Path
    tender: Child

    @property
    def services(self) -> Services:
        """Its services' addresses and secrets; nothing is started by looking."""
        return Services(self.folder.path)

    def processes(self) -> list[psutil.Process]:
        """Return everything that runs below the tender now."""
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.tender.pid).children(recursive=True)
        return []

    def part(self, name: str) -> psutil.Process | None:
        """Return the main process of a part, unless it is down."""
        running = self.folder.running()
        pid = running.children.get(name) if running is not None else None
        return next((row for row in self.processes() if row.pid == pid), None)

    def slots(self) -> list[psutil.Process]:
        """Return the processes in which the node carries out a ring."""
        node = self.part("workers")
        with suppress(psutil.NoSuchProcess):
            below = node.children() if node is not None else []
            return [row for row in below if not _says(row, "workers.child", "workers.probe")]
        return []

    def job_children(self) -> list[psutil.Process]:
        """Return the processes in which the stages run."""
        return [row for row in self.processes() if _says(row, "workers.child")]

    @contextmanager
    def untended(self) -> Iterator[None]:
        """Let nothing be started again while the block runs."""
        self.tender.popen.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.tender.popen.send_signal(signal.SIGCONT)

    def memory(self) -> int:
        """Return the resident bytes of all its processes; what they share counts for each."""
        total = 0
        for row in self.processes():
            with suppress(psutil.Error):
                total += row.memory_info().rss
        return total

    def strays(self) -> list[str]:
        """Return the processes of this farm that nobody tends."""
        tended = {self.tender.pid, *(row.pid for row in self.processes())}
        place = str(self.folder.path)
        found = []
        for row in psutil.process_iter():
            with suppress(psutil.Error):
                if row.pid not in tended and place in " ".join(row.environ().values()):
                    found.append(f"{row.pid} {' '.join(row.cmdline())[:120]}")
        return found


def kill(processes: Sequence[psutil.Process]) -> bool:
    """Kill processes at once; tell whether any was there to be killed."""
    hit = False
    for row in processes:
        with suppress(psutil.NoSuchProcess):
            row.kill()
            hit = True
    return hit


def tree(process: psutil.Process) -> list[psutil.Process]:
    """Return a process and all below it."""
    with suppress(psutil.NoSuchProcess):
        return [process, *process.children(recursive=True)]
    return []


def until_dead(process: psutil.Process) -> None:
    """Return when a killed process runs no more, whether or not its parent has noticed."""
    with suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)


def empty(folder: Path) -> None:
    """Remove everything in a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


@contextmanager
def running_victim(place: Path) -> Iterator[tuple[Victim, Running]]:
    """Run a farm below ``place`` while the block runs."""
    folder, faults = Folder(place / "farm"), place / "faults"
    faults.mkdir()
    told = {
        "FOLDER": str(folder.path),
        "POLICY": json.dumps(POLICY),
        "RESTARTS": str(_RESTARTS),
        "FAULT_DIR": str(faults),
    }
    tender = spawn(
        "farm",
        [sys.executable, "-m", "localfarm", "up"],
        log=place / "up.log",
        environment=inherited_environment()
        | {f"{PREFIX}LOCAL_{name}": value for name, value in told.items()},
        death_signal=signal.SIGTERM,
    )
    try:
        yield Victim(folder, faults, tender), _ready(folder, tender)
    finally:
        tender.stop(_END_S)


def _ready(folder: Folder, tender: Child) -> Running:
    deadline = time.monotonic() + _READY_S
    while tender.exit_code() is None and time.monotonic() < deadline:
        running = folder.running()
        if running is not None:
            return running
        time.sleep(0.2)
    message = "the farm has not started:\n" + "\n".join(tender.tail())
    raise RuntimeError(message)


def _says(process: psutil.Process, *words: str) -> bool:
    with suppress(psutil.Error):
        return bool(set(words) & set(process.cmdline()))
    return False
