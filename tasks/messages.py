"""What the control plane and a node say to each other.

The Celery message is :class:`Ring` and nothing more: losing it or getting it five times must not
matter. Everything else goes over the worker API, authorised by the node's credential and, for a
job, by the lease token that the claim gave out.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints

from enginefarm.digest import Digest
from enginefarm.errors import Failure
from enginefarm.report import Machine
from enginefarm.state import JobState, Stage
from enginefarm.target import Target

RUN_TASK = "enginefarm.run"
"""Name of the one Celery task."""
BUCKET_AWAY = "bucket_away"
"""The code of an attempt that could not fetch or store because the bucket did not answer."""

FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$")]


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Ring(_Message):
    """A doorbell: try to claim this attempt of this job."""

    job_id: str
    attempt: int


class Device(_Message):
    """A device of a node. ``arch`` is ``cpu`` or ``sm_NN``."""

    arch: str
    name: str
    uuid: str | None = None
    memory_bytes: int | None = None
    driver: str | None = None
    cuda: str | None = None


class BackendDescription(_Message):
    """A backend that really loads on a node, probed in a child process."""

    name: str
    version: str
    builds: list[str] = Field(description="Architectures it can build for here.")
    measures: list[str] = Field(description="Architectures it can run on here.")


class NodeDescription(_Message):
    """What a node says of itself."""

    hostname: str
    cpu: str
    cores: int
    memory_bytes: int
    devices: list[Device]
    backends: list[BackendDescription]
    stages: list[Stage]
    slots: int = 1
    farm_version: str


class EnrolRequest(_Message):
    """First words of a node; the enrolment token goes in the Authorization header."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
    description: NodeDescription


class EnrolReply(_Message):
    """The node's own credential, shown once."""

    node_id: str
    credential: str
    queues: list[str]
    heartbeat_s: float


class NodeBeat(_Message):
    """A node lives, and this is what it runs."""

    description: NodeDescription | None = None
    running: list[str] = []
    draining: bool = False


class NodeBeatReply(_Message):
    """What the control plane wants of the node."""

    queues: list[str]
    drain: bool = False


class InputFile(_Message):
    """A blob the job needs. ``role``: model, external-data, engine, dataset, check."""

    role: str
    name: FileName
    digest: Digest
    size: int
    url: str = Field(description="Presigned GET.")


class JobLimits(_Message):
    """The running and silent clocks, in seconds, and the child's memory limit in bytes."""

    running_s: float
    silent_s: float
    memory_bytes: int | None = None


class ClaimRequest(_Message):
    """A node rings back."""

    job_id: str
    attempt: int


class Assignment(_Message):
    """A claimed job: all a node needs, and nothing it does not."""

    job_id: str
    attempt: int
    build_id: str
    stage: Stage
    target: Target
    lease_token: str
    lease_s: float
    heartbeat_s: float
    limits: JobLimits
    recipe: dict[str, JsonValue]
    inputs: list[InputFile]


class ClaimReply(_Message):
    """The job, or why not: ``gone``, ``incapable``, ``failed here before``, or its state."""

    assignment: Assignment | None
    declined: str | None = None


class Progress(_Message):
    """How far a job is."""

    fraction: float | None = None
    phase: str = ""
    detail: str = ""
    elapsed_s: float = 0.0


class LeaseBeat(_Message):
    """The lease is alive; with what happened since the last beat."""

    attempt: int
    lease_token: str
    progress: Progress | None = None
    log_tail: str = Field(default="", max_length=65_536)


class LeaseBeatReply(_Message):
    """``cancel``: stop the child and finish as cancelled."""

    cancel: bool
    lease_s: float


class OutputFile(_Message):
    """A file a job made, hashed by the node."""

    role: str
    name: FileName
    digest: Digest
    size: int
    media_type: str


class UploadsRequest(_Message):
    """Ask where to put these files."""

    attempt: int
    lease_token: str
    files: list[OutputFile]


class UploadSlot(_Message):
    """Where one file goes; ``url`` is absent when the farm has these bytes already."""

    digest: Digest
    url: str | None
    headers: dict[str, str] = {}


class UploadsReply(_Message):
    """A slot for each file asked for, in the same order."""

    files: list[UploadSlot]


class FinishRequest(_Message):
    """How the attempt ended: succeeded, failed, cancelled, or queued again (handed back)."""

    attempt: int
    lease_token: str
    state: JobState
    outputs: list[OutputFile] = []
    facts: dict[str, Any] = Field(
        default_factory=dict, description="What the stage found: a report fragment, as JSON."
    )
    machine: Machine | None = None
    failure: Failure | None = None
    log: OutputFile | None = None


class FinishReply(_Message):
    """The state the job is in now."""

    state: JobState
