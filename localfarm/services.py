"""Real Valkey, PostgreSQL and SeaweedFS below one data folder, on loopback, without root.

Data survives a restart; the processes never survive the one that started them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from localfarm import seaweed
from localfarm.credentials import Credentials
from localfarm.errors import LocalFarmError
from localfarm.ports import Ports, moved
from localfarm.postgres import Postgres
from localfarm.process import Child
from localfarm.seaweed import Seaweed
from localfarm.valkey import Valkey

NAMES = ("seaweedfs", "valkey", "postgres")
READY_SECONDS = 60.0
_POLL_SECONDS = 0.05
_GRACE_SECONDS = 10.0
# Where nothing stands in the way, a farm's services are found where one looks for them first.
PREFERRED = {"postgres": 15432, "valkey": 16379, "s3_s3": 18333}


@dataclass
class Services:
    """The three services of one data folder, started together and stopped together."""

    folder: Path
    durable: bool = True
    ready_seconds: float = READY_SECONDS
    children: list[Child] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read the secrets and the ports of last time; nothing is started yet."""
        # Others may pass through (PostgreSQL may have to run as another user), not look.
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o711)
        self.credentials = Credentials.of(self.folder)
        self._ports = Ports(self.folder / "ports.json")
        self._place(self._ports.known())

    def start(self, only: Collection[str] = NAMES) -> None:
        """Start all three without waiting. Call it from a thread that stays."""
        self._place(self._ports.choose(self._wanted()))
        self.children += [start() for name, start in self._starts().items() if name in only]

    def _starts(self) -> dict[str, Callable[[], Child]]:
        # The slowest first.
        return {
            "seaweedfs": self.s3.start,
            "valkey": lambda: self.valkey.start(durable=self.durable),
            "postgres": lambda: self.postgres.start(durable=self.durable),
        }

    def revive(self, child: Child) -> None:
        """Start one that has ended again, where it was and on its data."""
        self.children[self.children.index(child)] = self._starts()[child.name]()

    def moved(self) -> list[str]:
        """Say which services could not have the port where one looks for them first."""
        return moved(self._wanted(), self._ports.known())

    def _wanted(self) -> dict[str, int]:
        names = ("postgres", "valkey", *seaweed.PORTS)
        return {name: PREFERRED.get(name, 0) if self.durable else 0 for name in names}

    def _place(self, chosen: Mapping[str, int]) -> None:
        at = dict.fromkeys(self._wanted(), 0) | dict(chosen)
        folder, log = self.folder, self.folder / "log"
        own = self.credentials
        self.postgres = Postgres(folder / "postgres", at["postgres"], own, log / "postgres.log")
        self.valkey = Valkey(folder / "valkey", at["valkey"], own, log / "valkey.log")
        self.s3 = Seaweed(folder / "s3", at, own, log / "seaweedfs.log")

    def wait(self) -> None:
        """Return when all three answer."""
        for name, ready in (
            ("valkey", self.valkey.ready),
            ("postgres", self.postgres.ready),
            ("seaweedfs", self.s3.ready),
        ):
            self.wait_for(name, ready)

    def wait_for(self, name: str, ready: Callable[[], bool]) -> None:
        """Return when one answers; say why it never will if its process has ended."""
        deadline = time.monotonic() + self.ready_seconds
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise LocalFarmError(
                    f"{name} did not answer within {self.ready_seconds:.0f} s.",
                    code="service_not_ready",
                    fix=f"Read {self.folder / 'log' / name}.log.",
                )
            time.sleep(_POLL_SECONDS)

    def check(self) -> None:
        """Raise if one of the processes has ended."""
        for child in self.children:
            code = child.exit_code()
            if code is not None:
                raise LocalFarmError(
                    f"{child.name} ended with exit status {code}.",
                    code="service_failed",
                    why="\n".join(child.tail()),
                    fix=f"Read {child.log}.",
                )

    def stop(self) -> None:
        """End all three; nothing that was answered for is lost."""
        for child in reversed(self.children):
            if child.name == "seaweedfs":
                self.s3.stop(child)
            else:
                child.stop(_GRACE_SECONDS)
        self.children.clear()
        self._ports.release()


@contextmanager
def running_services(folder: Path, *, durable: bool = True) -> Iterator[Services]:
    """Run the three services below ``folder`` while the block runs."""
    services = Services(folder, durable=durable)
    try:
        services.start()
        services.wait()
        yield services
    finally:
        services.stop()


@contextmanager
def throwaway_postgres() -> Iterator[str]:
    """Run a PostgreSQL of its own while the block runs, and give the URL of an empty database."""
    with tempfile.TemporaryDirectory(prefix="enginefarm-") as place:
        services = Services(Path(place), durable=False)
        try:
            services.start(only=("postgres",))
            services.wait_for("postgres", services.postgres.ready)
            yield services.postgres.ensure_database("throwaway")
        finally:
            services.stop()
