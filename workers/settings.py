"""What an operator says to a node, from the environment (prefix ``ENGINEFARM_``) and its command.

This is the one place of this package that reads the environment.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, StringConstraints, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from enginefarm.state import Stage
from tasks.routing import NODE_STAGES
from workers.gpu.narrowing import NONE_OF_THEM
from workers.gpu.need import LOCK_FOLDER

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
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "OMP_NUM_THREADS",
    "ENGINEFARM_FAULT_DIR",
)


TOOL_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "OMP_NUM_THREADS")

# ONNX Runtime's packages tell their maker of each session unless this is set before the import.
# What a farm is sent is nobody else's business.
TELLS_NOBODY = {"ORT_DISABLE_TELEMETRY": "1"}


def tell_nobody() -> None:
    """Keep ONNX Runtime, if this process imports it from now on, from telling its maker."""
    for name, value in TELLS_NOBODY.items():
        os.environ.setdefault(name, value)


def default_node_name() -> str:
    """Return the machine's name in the alphabet of node names."""
    name = re.sub(r"[^a-z0-9._-]+", "-", socket.gethostname().lower()).strip("-._")
    return name[:63] or "node"


def _visible_gpus() -> list[str]:
    """Return which GPUs CUDA's own variable names; set to nothing or -1 it means none."""
    told = os.environ.get("CUDA_VISIBLE_DEVICES")
    return [] if told is None else [row for row in _words(told) if row != "-1"] or [NONE_OF_THEM]


class NodeSettings(BaseSettings):
    """A node's settings."""

    model_config = SettingsConfigDict(
        env_prefix="ENGINEFARM_", extra="ignore", frozen=True, hide_input_in_errors=True
    )

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
    devices: Annotated[list[str], NoDecode] = Field(
        default_factory=_visible_gpus,
        description="The GPUs that this node uses: UUIDs, their beginnings or the driver's numbers,"
        " with spaces or commas between them; `none` for none. Default: those that"
        " CUDA_VISIBLE_DEVICES names, else all.",
    )
    device_lock_dir: Path = Field(
        default=LOCK_FOLDER,
        description="Where GPUs are locked: one folder for all nodes of a host and its containers.",
    )
    share_devices: bool = Field(
        default=False,
        description="Let checks and compiles have a GPU together; a measurement is always alone.",
    )
    device_wait_s: Annotated[float, Field(ge=1)] = Field(
        default=600.0, description="How long a job waits for a GPU before it is tried again later."
    )
    benchmark_times: Annotated[int, Field(ge=1, le=20)] = Field(
        default=3,
        description="How often a measurement on a GPU that cannot be relied on is made, before it"
        " is published as tainted.",
    )
    measure_tensorrt: bool = Field(
        default=False,
        description="Run TensorRT engines on this node's GPUs, to measure them. Off, since it was"
        " never run with TensorRT's own libraries by those who wrote it.",
    )
    measure_rtx: bool = Field(
        default=False,
        description="Run TensorRT-RTX engines on this node's GPUs, to measure them and to keep"
        " their runtime caches. Off, since it was never run on such a GPU by those who wrote it.",
    )
    job_log_bytes: Annotated[int, Field(ge=4096, le=32 * MIB)] = Field(
        default=8 * MIB, description="How much of a job's log is kept."
    )
    job_memory_bytes: Annotated[int, Field(ge=64 * MIB)] | None = Field(
        default=None, description="Most memory of one job, where the farm names no limit."
    )
    modelopt_python: Path | None = Field(
        default=None,
        description="The python of an environment with NVIDIA ModelOpt; absent: the node has none.",
    )
    node_plugins: Path | None = Field(
        default=None,
        description="The folder of plugin libraries, with one folder for each backend"
        " (`onnxruntime`, `tensorrt`); absent: the node has none.",
    )
    node_grace_s: Annotated[float, Field(ge=0)] = Field(
        default=30.0,
        description="When told to stop: how long its jobs may go on before they are handed back.",
    )
    enrol_timeout_s: float = Field(
        default=300.0, description="How long a starting node waits for the farm."
    )

    @property
    def pythons(self) -> dict[str, Path]:
        """The pythons of tools that have an environment of their own, by the tool's name."""
        # Not resolved: the link is what makes it the python of its environment.
        python = self.modelopt_python
        return {} if python is None else {"modelopt": python.absolute()}

    @field_validator("node_plugins", mode="before")
    @classmethod
    def _none_if_empty(cls, value: object) -> object:
        return value or None  # a folder with no name would be the one that the node runs in

    @field_validator("stages", "devices", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _words(value) if isinstance(value, str) else value


def child_environment(scratch: Path) -> dict[str, str]:
    """Return the environment of a job's child: what it needs, and none of our secrets."""
    kept = {name: os.environ[name] for name in CHILD_VARIABLES if name in os.environ}
    paths = [str(ROOT), str(ROOT / "client" / "src")]
    return kept | {
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
        **TELLS_NOBODY,
    }


def tool_environment(folder: Path) -> dict[str, str]:
    """Return what a tool's own python may see: nothing of the farm, and nothing that varies."""
    kept = {name: os.environ[name] for name in TOOL_VARIABLES if name in os.environ}
    return kept | {
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "PYTHONHASHSEED": "0",  # sets of names decide the order of nodes
        "PYTHONUNBUFFERED": "1",
        **TELLS_NOBODY,
        # A bar is a sign of life where there is no other, and nothing to read.
        "TQDM_DELAY": "10",
        "TQDM_MININTERVAL": "10",
    }


def show_gpu(uuid: str | None) -> None:
    """Let what this process loads from now on see one GPU alone, or none."""
    show_gpus([] if uuid is None else [uuid])


def show_gpus(uuids: Sequence[str]) -> None:
    """Let what this process loads from now on see these GPUs alone."""
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(uuids)


def gpus_hidden() -> bool:
    """Tell whether this process was to see no GPU."""
    return os.environ.get("CUDA_VISIBLE_DEVICES") == ""


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()
