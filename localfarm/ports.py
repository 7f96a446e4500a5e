"""Loopback ports: the one asked for when it is free, else any; remembered in the data folder.

A chosen port is reserved until it is released, so that two farms that start at the same moment
do not choose the same one: between choosing and listening lie seconds.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

HOST = "127.0.0.1"
# Below the range from which the system takes ports for outgoing connections.
_ANY = range(20_000, 32_000)
_DOORS = {
    "api": "the API",
    "flower": "Flower",
    "postgres": "PostgreSQL",
    "valkey": "Valkey",
    "s3_s3": "S3",
}


class Ports:
    """The ports of one data folder."""

    def __init__(self, memory: Path) -> None:
        """Remember in ``memory``; nothing is reserved yet."""
        self._memory = memory
        self._locks: dict[int, IO[str]] = {}

    def known(self) -> dict[str, int]:
        """Return the ports chosen before, or none."""
        if not self._memory.exists():
            return {}
        known: dict[str, int] = json.loads(self._memory.read_text("utf-8"))
        return known

    def choose(self, preferred: Mapping[str, int]) -> dict[str, int]:
        """Reserve a port for each name: the preferred (0: none), the remembered, or any."""
        known = self.known()
        chosen = {
            name: next(port for port in _wishes(wish, known.get(name, 0)) if self._reserve(port))
            for name, wish in preferred.items()
        }
        self._memory.write_text(json.dumps(known | chosen, indent=1), "utf-8")
        return chosen

    def release(self) -> None:
        """Give the reservations back."""
        for lock in self._locks.values():
            lock.close()
        self._locks.clear()

    def _reserve(self, port: int) -> bool:
        if port in self._locks or not is_free(port):
            return False
        folder = Path(tempfile.gettempdir()) / f"enginefarm-ports-{os.getuid()}"
        folder.mkdir(exist_ok=True, mode=0o700)
        lock = (folder / str(port)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        self._locks[port] = lock
        return True


def moved(preferred: Mapping[str, int], chosen: Mapping[str, int]) -> list[str]:
    """Say of each port that was preferred and not had which one is used instead."""
    return [
        f"port {wanted} is taken, so {_DOORS.get(name, name)} is on {chosen[name]}"
        for name, wanted in preferred.items()
        if wanted and chosen[name] != wanted
    ]


def is_free(port: int) -> bool:
    """Return whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: a port whose old connections still linger is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def is_open(port: int) -> bool:
    """Return whether something listens on this loopback port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0


def _wishes(*first: int) -> Iterator[int]:
    yield from (port for port in first if port)
    yield from random.sample(_ANY, len(_ANY))
