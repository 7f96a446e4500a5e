"""The data folder of a local farm: where everything lies in it, and who holds it.

One process holds a folder at a time, by a lock that the kernel drops when it ends.
"""

from __future__ import annotations

import fcntl
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from localfarm.credentials import SECRETS, write_private
from localfarm.errors import LocalFarmError


class Running(BaseModel):
    """What a running farm says of itself to other commands."""

    url: str
    docs: str
    flower: str
    flower_login: str
    s3: str
    folder: Path
    children: dict[str, int]


@dataclass(frozen=True)
class Folder:
    """A data folder."""

    path: Path

    @property
    def client_file(self) -> Path:
        """What ``enginefarm`` finds from here upwards: url, key and trust."""
        return self.path / "client.toml"

    @property
    def secrets_file(self) -> Path:
        """Every secret of this farm; readable by its owner alone."""
        return self.path / SECRETS

    @property
    def trust_file(self) -> Path:
        """The farm's public keys."""
        return self.path / "trust.json"

    @property
    def signing(self) -> Path:
        """The farm's signing key."""
        return self.path / "signing"

    @property
    def ports(self) -> Path:
        """The ports chosen before."""
        return self.path / "ports.json"

    def log(self, name: str) -> Path:
        """Return the log of one process."""
        return self.path / "log" / f"{name}.log"

    def private(self, name: str) -> Path:
        """Return a folder that only its owner may enter."""
        made = self.path / name
        made.mkdir(parents=True, exist_ok=True, mode=0o700)
        return made

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder while the block runs.

        Raises:
            LocalFarmError: another process holds it (code ``farm_running``).
        """
        self.path.mkdir(parents=True, exist_ok=True, mode=0o711)
        with self._lock_file.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._runs_already() from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            try:
                yield
            finally:
                self._state_file.unlink(missing_ok=True)

    def holder(self) -> int | None:
        """Return the process that holds the folder, if one does."""
        if not self._lock_file.exists():
            return None
        with self._lock_file.open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(lock.read() or 0) or None
        return None

    def announce(self, running: Running) -> None:
        """Say where the farm is, to other commands."""
        write_private(self._state_file, running.model_dump_json(indent=1))

    def running(self) -> Running | None:
        """Return the farm that runs on this folder, if one does and is ready."""
        if self.holder() is None:
            return None
        try:
            return Running.model_validate_json(self._state_file.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    @property
    def _lock_file(self) -> Path:
        return self.path / "lock"

    @property
    def _state_file(self) -> Path:
        return self.path / "farm.json"

    def _runs_already(self) -> LocalFarmError:
        running = self.running()
        where = f" at {running.url}" if running else ""
        return LocalFarmError(
            f"A farm runs on {self.path} already{where}.",
            code="farm_running",
            fix="Use it, or end it with `make stop`.",
        )


def read_client_file(folder: Folder) -> dict[str, str]:
    """Return what a client of the farm must know: url, key and trust."""
    words: dict[str, str] = tomllib.loads(folder.client_file.read_text("utf-8"))
    return words
