"""What the REST API answers: the same classes serve ``api`` (to write) and the client (to read).

Times are RFC 3339 in UTC. Fields are only ever added within ``/v1``.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from enginefarm.digest import Digest
from enginefarm.errors import Failure
from enginefarm.report import BuildReport
from enginefarm.spec import BuildSpec
from enginefarm.state import ArtifactState, BuildState, JobState, NodeState, Stage
from enginefarm.target import Target


class _View(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Problem(_View):
    """An error over HTTP (RFC 9457), with the farm's own members."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    why: str = ""
    fix: str = ""
    context: dict[str, JsonValue] = {}
    instance: str | None = None


class TensorView(_View):
    """An input or output of a model. A dim is a number, a name, or null if it has neither."""

    name: str
    dtype: str
    shape: list[int | str | None]


class FileView(_View):
    """One file of a model or artifact."""

    name: str
    digest: Digest
    size: int
    media_type: str = "application/octet-stream"


class ModelView(_View):
    """A model: one ONNX file and its external data."""

    digest: Digest
    name: str
    size: int
    files: list[FileView]
    inputs: list[TensorView]
    outputs: list[TensorView]
    opsets: dict[str, int]
    node_count: int
    created_at: datetime
    existed: bool = Field(default=False, description="The same bytes were here before.")


class DatasetView(_View):
    """Named arrays for evaluation; the first dimension counts the samples."""

    digest: Digest
    name: str
    size: int
    samples: int
    arrays: list[TensorView]
    created_at: datetime
    existed: bool = False


class ProgressView(_View):
    """How far a running job is. ``fraction`` is absent when the backend cannot tell."""

    fraction: float | None = None
    phase: str = ""
    detail: str = ""
    elapsed_s: float = 0.0


class AttemptView(_View):
    """One run of a job on one node."""

    number: int
    node: str | None
    state: JobState
    started_at: datetime
    finished_at: datetime | None
    failure: Failure | None
    log: Digest | None


class JobView(_View):
    """One stage of a build on one target."""

    id: str
    stage: Stage
    target: Target
    state: JobState
    attempt: int
    key: Digest | None
    queue: str | None
    cached_from: str | None = Field(default=None, description="The job whose result this one took.")
    joined_to: str | None = Field(default=None, description="The running job this one waits for.")
    node: str | None
    progress: ProgressView | None = None
    failure: Failure | None = None
    note: str | None = None
    created_at: datetime
    queued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    outputs: list[FileView] = []
    repairs: list[str] = Field(default=[], description="Passes that changed the model.")
    attempts: list[AttemptView] = []


class TargetView(_View):
    """How a build stands on one target."""

    target: Target
    state: JobState
    artifact: Digest | None
    artifact_state: ArtifactState | None
    cached: bool
    failure: Failure | None


class BuildSummary(_View):
    """A row of the list of builds."""

    id: str
    state: BuildState
    model: Digest
    model_name: str
    targets: list[TargetView]
    labels: dict[str, str]
    priority: int
    created_at: datetime
    finished_at: datetime | None


class BuildView(BuildSummary):
    """A build in full."""

    spec: BuildSpec
    jobs: list[JobView]


class BuildPage(_View):
    """A page of builds, newest first."""

    items: list[BuildSummary]
    next_cursor: str | None


class KeyDifference(_View):
    """A field in which a recipe differs from the nearest known one."""

    field: str
    this: JsonValue
    nearest: JsonValue


class MissView(_View):
    """Why a key was not in the cache: the nearest key and the fields that differ."""

    nearest_key: Digest | None
    nearest_job: str | None
    differences: list[KeyDifference]


class PlannedJob(_View):
    """What would happen to one stage. ``outcome``: cached, joined, build or wait."""

    stage: Stage
    key: Digest | None
    queue: str | None
    outcome: str
    source: str | None = Field(default=None, description="The job that is reused or joined.")
    nodes: list[str] = []
    repairs: list[str] = Field(default=[], description="Known only where the job is cached.")
    miss: MissView | None = None


class PlannedTarget(_View):
    """The plan for one target."""

    target: Target
    backend_version: str | None
    measured: bool
    reason: str | None
    jobs: list[PlannedJob]


class PlanView(_View):
    """The answer to ``?dry_run=1``."""

    model: Digest
    targets: list[PlannedTarget]


class TargetAvailability(_View):
    """Whether live nodes serve a target."""

    target: Target
    compiles: list[str] = Field(description="Nodes that can build it.")
    measures: list[str] = Field(description="Nodes that can run it.")
    versions: list[str]
    in_this_version: bool = Field(
        default=True, description="Whether nodes of the farm's version have code for the backend."
    )


class BackendView(_View):
    """A backend as a node found it."""

    name: str
    version: str
    builds: list[str]
    measures: list[str]


class NodeView(_View):
    """A node."""

    id: str
    name: str
    state: NodeState
    hostname: str
    cpu: str
    cores: int
    memory_bytes: int
    devices: list[dict[str, JsonValue]]
    backends: list[BackendView]
    queues: list[str]
    running: list[str]
    faults: int = Field(default=0, description="Failures of its own fault, in a row.")
    note: str | None = Field(default=None, description="Why it takes no work, if it does not.")
    last_seen_at: datetime
    enrolled_at: datetime


class ArtifactView(_View):
    """A signed artifact."""

    digest: Digest
    state: ArtifactState
    target: Target
    model: Digest
    model_name: str
    build: str
    size: int
    files: list[FileView]
    report: BuildReport | None
    created_at: datetime


class TrustKey(_View):
    """A public key and what it may sign for."""

    keyid: str
    public_key: str = Field(description="PEM, SubjectPublicKeyInfo.")
    builders: list[str]
    not_before: datetime
    not_after: datetime | None = None
    revoked_at: datetime | None = None


class TrustView(_View):
    """The farm's public keys."""

    keys: list[TrustKey]


class EventView(_View):
    """One event of a build. ``kind``: snapshot, job, build or progress."""

    id: str
    kind: str
    build: str
    job: str | None = None
    data: dict[str, JsonValue]
    at: datetime
