"""The farm's own processes on this machine: what each is started with and told."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from localfarm.folder import Folder
from localfarm.identity import BUILDER_ID, signing_key
from localfarm.ports import HOST
from localfarm.process import Child, spawn
from localfarm.services import Services
from localfarm.settings import PREFIX, ROOT, inherited_environment

MODELOPT = Path(sys.prefix) / "modelopt" / "bin" / "python"
"""What `make modelopt` sets up."""
BUCKET = "enginefarm"
DATABASE = "enginefarm"


@dataclass(frozen=True)
class Programs:
    """Starts the farm's processes on running services."""

    folder: Folder
    services: Services
    ports: Mapping[str, int]
    policy: Mapping[str, float] = field(default_factory=dict)
    fault_dir: Path | None = None
    plugins: Path | None = None

    @property
    def url(self) -> str:
        """Where the API is."""
        return f"http://{HOST}:{self.ports['api']}"

    @property
    def flower_url(self) -> str:
        """Where Flower is."""
        return f"http://{HOST}:{self.ports['flower']}"

    def storage(self) -> dict[str, str]:
        """Return the settings by which the control plane reaches rows and bytes."""
        own = self.services.credentials
        return {
            "database_url": self.services.postgres.url(DATABASE),
            "valkey_url": self.services.valkey.url(1),
            "s3_endpoint": self.services.s3.endpoint,
            "s3_region": self.services.s3.region,
            "s3_bucket": BUCKET,
            "s3_access_key": own.s3_access_key,
            "s3_secret_key": own.s3_secret_key,
        }

    def api(self) -> Child:
        """Start the API."""
        told = (
            self._policy()
            | self.storage()
            | {
                "host": HOST,
                "port": str(self.ports["api"]),
                "enrolment_token": self.services.credentials.enrolment_token,
                "spool_dir": str(self.folder.private("spool")),
            }
        )
        return self._python("api", told)

    def control(self) -> Child:
        """Start the control loops."""
        uri, _ = signing_key(self.folder)
        told = (
            self._policy()
            | self.storage()
            | {
                "broker_url": self._broker,
                "signing_key_uri": uri,
                "signing_public_key": str(self.folder.signing / "signing-key.pub"),
                "builder_id": BUILDER_ID,
                "spool_dir": str(self.folder.private("spool")),
            }
        )
        return self._python("tasks", told)

    def node(self) -> Child:
        """Start the one node, which has this machine's CPU."""
        told = {
            "url": self.url,
            "broker_url": self._broker,
            "enrolment_token": self.services.credentials.enrolment_token,
            "node_name": "local",
            "node_state_dir": str(self.folder.private("node")),
        }
        if MODELOPT.exists():
            told["modelopt_python"] = str(MODELOPT)
        if self.plugins is not None:
            told["node_plugins"] = str(self.plugins.absolute())
        child = self._python("workers", told)
        # Celery's process waits for its job; the job's own process is told too, and hands it back.
        child.stop_group = True
        return child

    def flower(self) -> Child:
        """Start Flower on the broker, behind a password."""
        own = self.services.credentials
        told = {
            # By the environment: arguments can be read by every user of this machine.
            "CELERY_BROKER_URL": self._broker,
            "FLOWER_BASIC_AUTH": f"{own.flower_user}:{own.flower_password}",
            "FLOWER_COOKIE_SECRET": own.flower_cookie_secret,
            "FLOWER_ADDRESS": HOST,
            "FLOWER_PORT": str(self.ports["flower"]),
            "FLOWER_DB": str(self.folder.private("flower") / "flower"),
        }
        celery = Path(sys.executable).with_name("celery")
        configuration = ROOT / "deploy" / "flowerconfig.py"
        return spawn(
            "flower",
            [str(celery), "--app=tasks.flower", "flower", f"--conf={configuration}"],
            log=self.folder.log("flower"),
            environment=inherited_environment() | told,
        )

    def _policy(self) -> dict[str, str]:
        return {name: f"{value:g}" for name, value in self.policy.items()}

    @property
    def _broker(self) -> str:
        return self.services.valkey.url(0)

    def _python(self, module: str, told: Mapping[str, str]) -> Child:
        if self.fault_dir is not None:
            told = {**told, "fault_dir": str(self.fault_dir)}
        return spawn(
            module,
            [sys.executable, "-m", module],
            log=self.folder.log(module),
            environment=inherited_environment()
            | {PREFIX + name.upper(): value for name, value in told.items()},
        )
