"""What the control plane and a node say to each other.

The Celery message is :class:`Ring` and nothing more: losing it or getting it five times must not
matter. Everything else goes over the worker API, authorised by the node's credential and, for a
job, by the lease token that the claim gave out.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, model_validator

from enginefarm.digest import Digest
from enginefarm.errors import Failure
from enginefarm.numbers import Real, Whole
from enginefarm.report import Machine
from enginefarm.state import JobState, Stage
from enginefarm.target import Target
from tasks.descriptions import BackendDescription as BackendDescription  # noqa: PLC0414
from tasks.descriptions import Device as Device  # noqa: PLC0414
from tasks.descriptions import NodeDescription as NodeDescription  # noqa: PLC0414
from tasks.descriptions import PluginDescription as PluginDescription  # noqa: PLC0414
from tasks.storable import storable
from tasks.timing_messages import TIMING_CACHE_TYPE as TIMING_CACHE_TYPE  # noqa: PLC0414
from tasks.timing_messages import TimingMerge as TimingMerge  # noqa: PLC0414
from tasks.timing_messages import TimingOffer as TimingOffer  # noqa: PLC0414
from tasks.timing_messages import TimingRefusal as TimingRefusal  # noqa: PLC0414
from tasks.timing_messages import TimingReply as TimingReply  # noqa: PLC0414

RUN_TASK = "enginefarm.run"
"""Name of the one Celery task."""
BUCKET_AWAY, SCRATCH_FULL, DEVICE_BUSY = "bucket_away", "scratch_full", "device_busy"
"""The codes of attempts without a bucket that answers, without room on the node, without a GPU."""
INPUT_UNAVAILABLE = "input_unavailable"
"""The code of an attempt for which an input does not come, or not as it should be."""
MEMORY_LIMIT, OUT_OF_MEMORY = "memory_limit", "out_of_memory"
"""The codes of attempts that had too little memory: for a job by the node's rule, or at all."""
FARM_AWAY = "farm_was_away"
"""The code of an attempt whose lease ran out while the control plane itself was away."""

MediaType = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+;= -]{1,127}$")
]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$")]
AttemptNumber = Annotated[Whole, Field(ge=0, lt=1 << 31)]
"""The number of an attempt, as the database keeps it."""
Token = Annotated[str, StringConstraints(max_length=200)]
"""The token of a lease, as the farm gave it; a bound also refuses what is no text."""
ClaimId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{40,100}$")]
"""Random, and known to one process of a node and to the farm only."""
MOST_FILES = 4096  # in one message; a model may have a quarter of it


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Reply(BaseModel):
    """What the farm says; a node of the version before leaves out what it does not know."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _StoredMessage(_Message):
    @model_validator(mode="before")
    @classmethod
    def _is_storable(cls, value: Any) -> Any:  # noqa: ANN401 - pydantic hands over anything
        return storable(value)


class Ring(_Message):
    """A doorbell: try to claim this attempt of this job."""

    job_id: str
    attempt: Whole


class EnrolRequest(_StoredMessage):
    """First words of a node; the enrolment token goes in the Authorization header.

    ``previous`` is the credential of an earlier enrolment: who has it is the same node.
    """

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
    description: NodeDescription
    previous: str | None = None


class EnrolReply(_Reply):
    """The node's own credential, shown once."""

    node_id: str
    credential: str
    queues: list[str]
    heartbeat_s: float


class NodeBeat(_StoredMessage):
    """A node lives, and this is what it runs."""

    description: NodeDescription | None = None
    running: Annotated[list[str], Field(max_length=MOST_FILES)] = []
    draining: bool = False


class NodeBeatReply(_Reply):
    """What the control plane wants of the node."""

    queues: list[str]
    drain: bool = False


class InputFile(_Reply):
    """A blob the job needs. ``role``: model, external-data, engine, dataset, check."""

    role: str
    name: FileName
    digest: Digest
    size: int
    url: str = Field(description="Presigned GET.")


class JobLimits(_Reply):
    """The running and silent clocks, in seconds, and the child's memory limit in bytes."""

    running_s: float
    silent_s: float
    memory_bytes: int | None = None


class ClaimRequest(_StoredMessage):
    """A node rings back.

    ``claim_id`` is made anew for each ring that is heard, and is the same however often its answer
    is asked for: who repeats it is given the lease that it was given. Absent: nobody is.
    """

    job_id: str
    attempt: Whole
    claim_id: ClaimId | None = None


class MeasuredPeak(_Reply):
    """The memory that a stage took in an earlier build like this one.

    ``enough``: it succeeded with so much, at sizes no smaller than this build's.
    """

    stage: Stage
    peak_bytes: Whole
    enough: bool
    build_id: str


class Assignment(_Reply):
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
    measured: list[MeasuredPeak] = []
    served: list[Target] | None = None
    """For a check: the targets that live nodes build for now."""
    most_memory_bytes: Whole | None = None
    """What the live node with most memory gives a job that compiles for the target."""
    timing_cache: TimingOffer | None = None
    sku: str | None = None
    """For a benchmark: the SKU to measure on; absent: any device that fits."""


class ClaimReply(_Reply):
    """The job, or why not: ``gone``, ``incapable``, ``failed here before``, or its state."""

    assignment: Assignment | None
    declined: str | None = None


class Progress(_Message):
    """How far a job is."""

    fraction: Annotated[Real, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    phase: str = Field(default="", max_length=200)
    detail: str = Field(default="", max_length=500)
    elapsed_s: Real = Field(default=0.0, ge=0, allow_inf_nan=False)


class LeaseBeat(_Message):
    """The lease is alive; with what happened since the last beat."""

    attempt: AttemptNumber
    lease_token: Token
    progress: Progress | None = None
    log_tail: str = Field(default="", max_length=65_536)


class LeaseBeatReply(_Reply):
    """``cancel``: stop the child and finish as cancelled."""

    cancel: bool
    lease_s: float


class OutputFile(_Message):
    """A file a job made, hashed by the node."""

    role: str
    name: FileName
    digest: Digest
    size: Whole
    media_type: MediaType


class UploadsRequest(_Message):
    """Ask where to put these files."""

    attempt: AttemptNumber
    lease_token: Token
    files: Annotated[list[OutputFile], Field(max_length=MOST_FILES)]


class UploadSlot(_Reply):
    """Where one file goes; ``url`` is absent when the farm has these bytes already."""

    digest: Digest
    url: str | None
    headers: dict[str, str] = {}


class UploadsReply(_Reply):
    """A slot for each file asked for, in the same order."""

    files: list[UploadSlot]


class FinishRequest(_Message):
    """How the attempt ended: succeeded, failed, cancelled, or queued again (handed back)."""

    attempt: AttemptNumber
    lease_token: Token
    state: JobState
    outputs: Annotated[list[OutputFile], Field(max_length=MOST_FILES)] = []
    facts: dict[str, Any] = Field(
        default_factory=dict, description="What the stage found: a report fragment, as JSON."
    )
    machine: Machine | None = None
    peak_memory_bytes: Annotated[Whole, Field(ge=0, le=1 << 60)] | None = None
    """The most memory that the job's processes had together."""
    failure: Failure | None = None
    log: OutputFile | None = None


class FinishReply(_Reply):
    """The state the job is in now."""

    state: JobState
