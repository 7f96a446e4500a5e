"""``python -m workers.gpu.watch``: look after GPUs, and print whenever one's state changes.

A process of its own, so that a driver that hangs or crashes takes no node with it; it ends with
whoever started it. Each line is ``{"uuid": "why it is out, or null"}``
of all its devices.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from enginefarm.confinement import die_with
from enginefarm.errors import JobFailed
from workers.gpu import nvml
from workers.gpu.health import Health
from workers.gpu.lock import try_lock
from workers.gpu.port import DeviceLost, Nvml

LOOK_S = 2.0
Faults = dict[str, str | None]


class Watcher:
    """Looks at devices, one after the other, and remembers what was seen."""

    def __init__(self, port: Nvml, uuids: Sequence[str], lock_folder: Path) -> None:
        """Listen for the events of these devices."""
        self._port, self._locks = port, lock_folder
        self._health = {uuid: Health() for uuid in uuids}
        cards = {row.uuid: row.card or row.uuid for row in port.devices()}
        self._card = {uuid: cards.get(uuid, uuid) for uuid in uuids}
        port.watch(list(uuids))

    def look(self, wait_s: float, now: float) -> Faults:
        """Wait for an event at most so long, look at every device, and tell why each is out."""
        event = self._port.event(wait_s)
        for uuid, health in self._health.items():
            if event is not None and event.uuid in {uuid, self._card[uuid]}:
                health.hear_xid(event.xid, now)
            self._look_at(uuid, health)
        return {uuid: health.fault(now) for uuid, health in self._health.items()}

    def _look_at(self, uuid: str, health: Health) -> None:
        """See how a device is and who is on it, holding its lock: then it is no job of this host.

        Nothing is asked of a device that a job has: it may be measured just now.
        """
        try:
            lock = try_lock(self._locks, uuid)
        except JobFailed as error:
            health.out = f"{error.message} {error.why}"
            return
        if lock is None:
            health.see_locked()
            return
        try:
            health.errors = self._port.errors(uuid)
            health.see_unlocked(self._port.processes(uuid), self._port.reading(uuid).used_bytes)
            health.out = None
        except DeviceLost as error:
            health.out = f"it does not answer: {error}"
        finally:
            lock.free()


def changes(watcher: Watcher) -> Iterator[Faults]:
    """Yield the faults at first, and whenever they have changed."""
    told: Faults | None = None
    while True:
        found = watcher.look(LOOK_S, time.monotonic())
        if found != told:
            told = found
            yield found


def main(arguments: list[str]) -> int:
    """Watch until the process that started this ends."""
    parser = argparse.ArgumentParser(prog="workers.gpu.watch", description=__doc__)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--locks", type=Path, required=True)
    parser.add_argument("uuids", nargs="+")
    asked = parser.parse_args(arguments)
    die_with(asked.parent)
    with nvml.opened() as port:
        if port is None:
            print("the NVIDIA driver does not answer", file=sys.stderr)  # noqa: T201
            return 1
        for found in changes(Watcher(port, asked.uuids, asked.locks)):
            print(json.dumps(found), flush=True)  # noqa: T201 - printing is what this is for
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
