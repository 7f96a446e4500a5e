"""What an operator says to a node, from the environment (prefix ``ENGINEFARM_``) and its command.

This is the one place of this package that reads the environment.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, StringConstraints, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from enginefarm.state import Stage
from tasks.routing import NODE_STAGES

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20

# What a child may see of the environment: where programs, libraries and devices are. No secret.
CHILD_VARIABLES = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "OMP_NUM_THREADS",
    "ENGINEFARM_FAULT_DIR",
)


def default_node_name() -> str:
    """Return the machine's name in the alphabet of node names."""
    name = re.sub(r"[^a-z0-9._-]+", "-", socket.gethostname().lower()).strip("-._")
    return name[:63] or "node"


class NodeSettings(BaseSettings):
    """A node's settings."""

    model_config = SettingsConfigDict(env_prefix="ENGINEFARM_", extra="ignore", frozen=True)

    url: str = Field(description="The farm's address, where the worker API is.")
    broker_url: SecretStr = Field(
        description="Celery's broker, from which this node hears of jobs."
    )
    enrolment_token: SecretStr = Field(
        description="What allows this node to enrol; the API knows the same."
    )
    node_name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")] = Field(
        default_factory=default_node_name, description="What the farm calls this node."
    )
    node_state_dir: Path = Field(
        default=Path(".farm/node"), description="The node's credential and scratch folders."
    )
    stages: Annotated[list[Stage], NoDecode] = Field(
        default_factory=lambda: list(NODE_STAGES),
        description="The stages that this node runs, with spaces or commas between them.",
    )
    slots: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1, description="Jobs that this node runs at one time."
    )
    job_log_bytes: Annotated[int, Field(ge=4096, le=32 * MIB)] = Field(
        default=8 * MIB, description="How much of a job's log is kept."
    )
    job_memory_bytes: Annotated[int, Field(ge=64 * MIB)] | None = Field(
        default=None, description="Most memory of one job, where the farm names no limit."
    )
    node_grace_s: Annotated[float, Field(ge=0)] = Field(
        default=30.0,
        description="When told to stop: how long its jobs may go on before they are handed back.",
    )
    enrol_timeout_s: float = Field(
        default=300.0, description="How long a starting node waits for the farm."
    )

    @field_validator("stages", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return value.replace(",", " ").split() if isinstance(value, str) else value


def child_environment(scratch: Path) -> dict[str, str]:
    """Return the environment of a job's child: what it needs, and none of our secrets."""
    kept = {name: os.environ[name] for name in CHILD_VARIABLES if name in os.environ}
    paths = [str(ROOT), str(ROOT / "client" / "src")]
    return kept | {
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
    }
