"""A farm whose parts a test starts, stops and cuts off one by one.

Each part is the process that an operator runs. The farm and its nodes reach the bucket by one wire,
and a node reaches the API by another, so that a test decides what goes through.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import psutil

from localfarm.farm import PREFERRED
from localfarm.folder import Folder, read_client_file
from localfarm.identity import introduce
from localfarm.ports import Ports, is_open
from localfarm.process import Child, spawn
from localfarm.programs import DATABASE, Programs
from localfarm.services import Services
from localfarm.settings import PREFIX, inherited_environment
from storage import migrate
from storage.database import Database
from storage.objects import S3Objects
from storage.settings import StorageSettings
from tests.e2e.conftest import wait_until
from tests.e2e.wire import Wire

POLICY = {
    "lease_s": 30,
    "heartbeat_s": 0.5,
    "node_heartbeat_s": 1,
    "node_silent_s": 10,
    "retry_backoff_s": 0.2,
    "decline_pause_s": 0.2,
    "publish_lease_s": 10,
    "ring_again_s": 8,
}
SERVICES = ("valkey", "postgres", "seaweedfs")
NODE = "first"


@dataclass(frozen=True)
class Wired(Programs):
    """The farm's processes, with a wire between them and the bucket."""

    bucket: str = ""

    def storage(self) -> dict[str, str]:
        """Return the settings by which the control plane reaches rows and bytes."""
        return super().storage() | {"s3_endpoint": self.bucket}

    def worker(self, name: str, url: str, told: Mapping[str, str]) -> Child:
        """Start a node of that name, which reaches the API at ``url``."""
        known = {
            "url": url,
            "broker_url": self.services.valkey.url(0),
            "enrolment_token": self.services.credentials.enrolment_token,
            "node_name": name,
            "node_state_dir": str(self.folder.private(f"node-{name}")),
        }
        return spawn(
            name,
            [sys.executable, "-m", "workers"],
            log=self.folder.log(name),
            environment=inherited_environment()
            | {PREFIX + key.upper(): value for key, value in {**known, **told}.items()},
        )


@dataclass
class Parts:
    """The farm, by its parts."""

    place: Folder
    services: Services
    programs: Wired
    bucket: Wire
    road: Wire
    running: dict[str, Child] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where its services keep their data."""
        return self.place.path

    @property
    def url(self) -> str:
        """Where its API is."""
        return self.programs.url

    @property
    def key(self) -> str:
        """The access key of its user."""
        return read_client_file(self.place)["key"]

    def http(self, key: str = "") -> httpx.Client:
        """Return a client that speaks as the farm's user does, or as the one with ``key``."""
        headers = {"Authorization": f"Bearer {key or self.key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)

    def start(self, name: str, **told: str) -> None:
        """Start a part and return when it serves; a name that is no part's is a node's."""
        if name in SERVICES:
            (gone,) = (child for child in self.services.children if child.name == name)
            self.services.revive(gone)
            self.services.wait()
            return
        self._begin(name, **told)()

    def _begin(self, name: str, **told: str) -> Callable[[], None]:
        """Start a process; return what waits for it to serve."""
        starts: dict[str, Callable[[], Child]] = {
            "api": self.programs.api,
            "tasks": self.programs.control,
            "flower": self.programs.flower,
        }
        start = starts.get(name) or (lambda: self.programs.worker(name, self.road.url, told))
        log = self.place.log(name)
        said = log.stat().st_size if log.exists() else 0
        self.running[name] = start()

        def wait() -> None:
            wait_until(f"{name} to serve", 180, lambda: self._serves(name, said) or None)

        return wait

    def _serves(self, name: str, said: int) -> bool:
        child = self.running[name]
        assert child.exit_code() is None, "\n".join(child.tail())
        try:
            if name == "api":
                return httpx.get(f"{self.url}/healthz", timeout=5).is_success
            if name == "flower":
                return is_open(self.programs.ports["flower"])
            if name == "tasks":
                return b"loop_started" in child.log.read_bytes()[said:]
            with self.http() as http:
                nodes = http.get("/v1/nodes").raise_for_status().json()
        except httpx.HTTPError:
            return False
        return any(row["name"] == name and row["state"] == "active" for row in nodes)

    @contextmanager
    def api_with(self, **policy: float) -> Iterator[None]:
        """Let the API have another policy while the block runs."""
        usual = self.programs
        self.mend()
        self.leave("api")
        self.programs = replace(usual, policy={**POLICY, **policy})
        self.start("api")
        try:
            yield
        finally:
            self.programs = usual
            self.running["api"].stop(20)  # the next one who needs it starts it

    def child(self, name: str) -> Child:
        """Return the process of a part."""
        if name in SERVICES:
            return next(row for row in self.services.children if row.name == name)
        return self.running[name]

    def leave(self, name: str, limit_s: float = 120) -> int:
        """Ask a part to end, as a service manager does, and return its exit status."""
        child = self.child(name)
        if name == "seaweedfs":  # it does not end while anybody is connected
            self.services.s3.stop(child)
        child.ask_to_stop()
        return child.popen.wait(limit_s)

    def below(self, name: str) -> list[psutil.Process]:
        """Return the processes below a part's own."""
        return psutil.Process(self.child(name).pid).children(recursive=True)

    def children(self, name: str = NODE) -> list[psutil.Process]:
        """Return the processes in which a node's jobs run."""
        return [row for row in self.below(name) if "workers.child" in _words(row)]

    def mend(self) -> None:
        """Bring back whatever a test has left away."""
        for wire in (self.bucket, self.road):
            wire.open()
        for name in SERVICES:
            if self.child(name).exit_code() is not None:
                self.start(name)
        for name in set(self.running) - {"api", "tasks", NODE}:
            self.running.pop(name).stop(20)
        away = [
            name
            for name in ("api", "tasks", NODE)
            if name not in self.running or self.running[name].exit_code() is not None
        ]
        waits = [self._begin(name) for name in away]
        for wait in waits:
            wait()


@contextmanager
def standing(processes: Sequence[psutil.Process]) -> Iterator[None]:
    """Let processes stand still while the block runs."""
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


@contextmanager
def started_parts(path: Path) -> Iterator[Parts]:
    """Run a farm of parts below ``path`` while the block runs."""
    folder, services = Folder(path), Services(path)
    ports = Ports(folder.ports)
    wires: list[Wire] = []
    parts: Parts | None = None
    try:
        services.start()
        chosen = ports.choose(dict.fromkeys(PREFERRED, 0))
        services.wait()
        bucket = Wire(services.s3.endpoint)
        wires.append(bucket)
        programs = Wired(folder, services, chosen, POLICY, bucket=bucket.url)
        road = Wire(programs.url)
        wires.append(road)
        parts = Parts(folder, services, programs, bucket, road)
        _prepare(parts)
        yield parts
    finally:
        for child in reversed(list(parts.running.values()) if parts is not None else []):
            child.stop(20)
        services.stop()
        for wire in wires:
            wire.close()
        ports.release()


def _prepare(parts: Parts) -> None:
    url = parts.services.postgres.ensure_database(DATABASE)
    migrate.upgrade(url)
    database = Database(url, pool_size=1)
    introduce(parts.place, database, parts.url)
    database.dispose()
    settings = StorageSettings.model_validate(parts.programs.storage())
    S3Objects.from_settings(settings).ensure_bucket()
