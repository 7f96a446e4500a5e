"""The whole farm below one folder: started in order, watched, and ended in order.

A process that ends is started again, as a service manager would. One that ends again and again
is not: the farm says which and why, and ends too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx

from enginefarm.errors import Unauthenticated, Unavailable
from enginefarm.state import NodeState
from localfarm import ports
from localfarm.errors import LocalFarmError
from localfarm.folder import Folder, Running, read_client_file
from localfarm.process import Child
from localfarm.programs import DATABASE, Programs
from localfarm.services import Services

PREFERRED = {"api": 8080, "flower": 5555}
_POLL_SECONDS = 0.1
_NODE_GRACE_SECONDS = 8.0
_GRACE_SECONDS = 6.0
_WINDOW_SECONDS = 60.0


@dataclass
class LocalFarm:
    """One run of the farm on one folder."""

    folder: Folder
    ready_seconds: float
    say: Callable[[str], None] = print
    policy: Mapping[str, float] = field(default_factory=dict)
    restarts: int = 5
    fault_dir: Path | None = None
    plugins: Path | None = None
    children: list[Child] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Prepare; nothing is started yet."""
        self._ports = ports.Ports(self.folder.ports)
        self.services = Services(self.folder.path, ready_seconds=self.ready_seconds)

    def start(self) -> Running:
        """Start everything and return when a build could be submitted."""
        self.say(
            "starting PostgreSQL, Valkey, SeaweedFS, the API, the control loops, a node, Flower"
        )
        self.services.start()
        chosen = self._ports.choose(PREFERRED)
        for line in (*self.services.moved(), *ports.moved(PREFERRED, chosen)):
            self.say(line)
        programs = Programs(
            self.folder, self.services, chosen, self.policy, self.fault_dir, self.plugins
        )
        self._programs = programs
        self._began = datetime.now(UTC)
        # The node first: it looks at its backends while the others start.
        self.children.append(programs.node())
        self._prepare_database(programs)
        for start in (programs.api, programs.control, programs.flower):
            self.children.append(start())
        self._prepare_bucket(programs)
        self._wait_for_api(programs)
        self._wait_for_node(programs)
        self._wait(lambda: ports.is_open(chosen["flower"]), "Flower does not listen")
        running = self._describe(programs)
        self.folder.announce(running)
        return running

    @contextmanager
    def running(self) -> Iterator[Running]:
        """Run the farm while the block runs. Whoever calls this holds the folder."""
        try:
            yield self.start()
        finally:
            self.stop()

    def watch(self) -> None:
        """Stay, and start again what ends; call it from the thread that started the farm.

        Raises:
            LocalFarmError: a process has ended more than ``restarts`` times within a minute
                (codes ``process_ended``, ``service_failed``).
        """
        ends: list[tuple[float, str]] = []
        while True:
            for child in [*self.services.children, *self.children]:
                if child.exit_code() is None:
                    continue
                ends = [row for row in ends if row[0] > time.monotonic() - _WINDOW_SECONDS]
                ends.append((time.monotonic(), child.name))
                if sum(name == child.name for _, name in ends) > self.restarts:
                    self._check()
                self._revive(child)
            time.sleep(_POLL_SECONDS)

    def _revive(self, child: Child) -> None:
        self.say(f"{child.name} ended with exit status {child.exit_code()}; started again")
        if child in self.services.children:
            self.services.revive(child)
        else:
            starts = {
                "api": self._programs.api,
                "tasks": self._programs.control,
                "workers": self._programs.node,
                "flower": self._programs.flower,
            }
            self.children[self.children.index(child)] = starts[child.name]()
        self.folder.announce(self._describe(self._programs))

    def stop(self) -> None:
        """End everything, what asks before what answers."""
        self.say("stopping")
        order = {"workers": 0, "flower": 1, "tasks": 2, "api": 3}
        for child in sorted(self.children, key=lambda child: order[child.name]):
            child.stop(_NODE_GRACE_SECONDS if child.name == "workers" else _GRACE_SECONDS)
        self.children.clear()
        self.services.stop()
        self._ports.release()

    def _prepare_database(self, programs: Programs) -> None:
        # Imported while the services start; each takes a moment.
        from localfarm.identity import introduce
        from storage import migrate
        from storage.database import Database

        self.services.wait_for("valkey", self.services.valkey.ready)
        self.services.wait_for("postgres", self.services.postgres.ready)
        url = self.services.postgres.ensure_database(DATABASE)
        migrate.upgrade(url)
        database = Database(url, pool_size=1)
        introduce(self.folder, database, programs.url)
        database.dispose()

    def _prepare_bucket(self, programs: Programs) -> None:
        from storage.objects import S3Objects
        from storage.settings import StorageSettings

        self._wait(self.services.s3.ready, "SeaweedFS does not answer")
        settings = StorageSettings.model_validate(programs.storage())
        S3Objects.from_settings(settings).ensure_bucket()

    def _wait_for_api(self, programs: Programs) -> None:
        def ready() -> bool:
            try:
                return httpx.get(f"{programs.url}/readyz", timeout=10).is_success
            except httpx.TransportError:
                return False

        self._wait(ready, "the API is not ready")

    def _wait_for_node(self, programs: Programs) -> None:
        from enginefarm.client import FarmClient

        key = read_client_file(self.folder)["key"]

        def live() -> bool:
            try:
                nodes = client.fleet.nodes()
            except (Unavailable, Unauthenticated):
                # Not there yet; or not ours: then ours ends, for its port is taken.
                return False
            # The row of an earlier run may still look alive.
            fresh = [node for node in nodes if node.last_seen_at >= self._began]
            return any(node.state is NodeState.ACTIVE for node in fresh)

        with FarmClient(programs.url, key) as client:
            self._wait(live, "no node is live")

    def _wait(self, ready: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + self.ready_seconds
        while not ready():
            self._check()
            if time.monotonic() > deadline:
                raise LocalFarmError(
                    f"After {self.ready_seconds:.0f} s {otherwise}.",
                    code="farm_not_ready",
                    fix=f"Read the logs in {self.folder.path / 'log'}.",
                )
            time.sleep(_POLL_SECONDS)

    def _check(self) -> None:
        self.services.check()
        for child in self.children:
            code = child.exit_code()
            if code is not None:
                raise LocalFarmError(
                    f"The process {child.name} ended with exit status {code}.",
                    code="process_ended",
                    why="\n" + "\n".join(child.tail()) + "\n",
                    fix=f"Its whole log is {child.log}.",
                )

    def _describe(self, programs: Programs) -> Running:
        own = self.services.credentials
        children = [*self.services.children, *self.children]
        return Running(
            url=programs.url,
            docs=f"{programs.url}/docs",
            flower=programs.flower_url,
            flower_login=f"{own.flower_user}:{own.flower_password}",
            s3=self.services.s3.endpoint,
            folder=self.folder.path,
            children={child.name: child.pid for child in children},
        )
