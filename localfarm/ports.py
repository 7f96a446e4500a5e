"""Loopback ports: the one asked for when it is free, else any; remembered in the data folder."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path

HOST = "127.0.0.1"


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


def choose(preferred: Mapping[str, int], memory: Path) -> dict[str, int]:
    """Return a free port for each name: the remembered, the preferred (0: none), or any."""
    known = remembered(memory)
    chosen: dict[str, int] = {}
    for name, port in preferred.items():
        wishes = [known.get(name, 0), port]
        usable = (p for p in wishes if p and p not in chosen.values() and is_free(p))
        chosen[name] = next(usable, 0) or _any_free(set(chosen.values()))
    memory.write_text(json.dumps(known | chosen, indent=1), "utf-8")
    return chosen


def remembered(memory: Path) -> dict[str, int]:
    """Return the ports chosen before, or none."""
    if not memory.exists():
        return {}
    known: dict[str, int] = json.loads(memory.read_text("utf-8"))
    return known


def _any_free(taken: set[int]) -> int:
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((HOST, 0))
            port: int = probe.getsockname()[1]
        if port not in taken:
            return port
