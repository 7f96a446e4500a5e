"""What the REST API answers: the same classes serve ``api`` (to write) and the client (to read).

Times are RFC 3339 in UTC. Fields are only ever added within ``/v1``.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from enginefarm.digest import Digest
from enginefarm.errors import Failure
from enginefarm.finding import Finding
from enginefarm.report import BuildReport
from enginefarm.revocation import RevocationView
from enginefarm.spec import BuildSpec
from enginefarm.state import ArtifactState, BuildKind, BuildState, JobState, NodeState
from enginefarm.step_view import StepView
from enginefarm.target import Target
from enginefarm.tensor import TensorView as TensorView  # noqa: PLC0414 - a view like the others
from enginefarm.verdict_report import PrecisionVerdict


class View(BaseModel):
    """What all views share: fields that a newer farm adds are overlooked."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Problem(View):
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


class FileView(View):
    """One file of a model or artifact."""

    name: str
    digest: Digest
    size: int
    media_type: str = "application/octet-stream"


class ModelView(View):
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


class ModelSummary(View):
    """A row of the list of models; ``inputs`` and ``outputs`` hold the first few of them."""

    digest: Digest
    name: str
    size: int
    file_count: int
    inputs: list[TensorView]
    input_count: int
    outputs: list[TensorView]
    output_count: int
    opsets: dict[str, int]
    node_count: int
    created_at: datetime


class DatasetView(View):
    """Named arrays for evaluation or calibration; the first dimension counts the samples."""

    digest: Digest
    name: str
    size: int
    samples: int
    arrays: list[TensorView]
    created_at: datetime
    existed: bool = False


class ProgressView(View):
    """How far a running job is. ``fraction`` is absent when the backend cannot tell."""

    fraction: float | None = None
    phase: str = ""
    detail: str = ""
    elapsed_s: float = 0.0


class AttemptView(View):
    """One run of a job on one node."""

    number: int
    node: str | None
    state: JobState
    started_at: datetime
    finished_at: datetime | None
    failure: Failure | None
    log: Digest | None
    log_expired_at: datetime | None = Field(
        default=None, description="When the log was removed, by the operator's rule."
    )


class JobView(View, StepView):
    """One stage of a build on one target."""

    id: str
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
    outputs_expired_at: datetime | None = Field(
        default=None, description="When the outputs were removed, by the operator's rule."
    )
    repairs: list[str] = Field(default=[], description="Passes that changed the model.")
    repairs_left: list[str] = Field(
        default=[], description="Passes that were undone or could not be done, each with why."
    )
    attempts: list[AttemptView] = []
    findings: list[Finding] = Field(default=[], description="Of a check: all that it found.")


class TargetView(View):
    """How a build stands on one target."""

    target: Target
    state: JobState
    artifact: Digest | None
    artifact_state: ArtifactState | None
    cached: bool
    failure: Failure | None
    verdict: PrecisionVerdict | None = Field(
        default=None, description="Whether the precision that was asked for is worth it."
    )
    verdict_reason: str | None = Field(default=None, description="The verdict's numbers or cause.")


class BuildSummary(View):
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
    kind: BuildKind = Field(
        default=BuildKind.BUILD, description="check: it stops after its check, nothing is built."
    )
    bumped_at: datetime | None = Field(
        default=None, description="When it was put before all others of the tenant."
    )
    search: str | None = Field(default=None, description="The search whose candidate it is.")


class BuildView(BuildSummary):
    """A build in full."""

    spec: BuildSpec
    jobs: list[JobView]


class BuildPage(View):
    """A page of builds, newest first."""

    items: list[BuildSummary]
    next_cursor: str | None


class TargetAvailability(View):
    """Whether live nodes serve a target."""

    target: Target
    compiles: list[str] = Field(description="Nodes that can build it.")
    measures: list[str] = Field(description="Nodes that can run it.")
    versions: list[str]
    skus: list[str] = Field(
        default=[],
        description="GPUs it is built or run on, as a target names them; empty where none is.",
    )
    in_this_version: bool = Field(
        default=True, description="Whether nodes of the farm's version have code for the backend."
    )


class PluginView(View):
    """A plugin library that live nodes have, of which a build may name the digest."""

    backend: str
    name: str = Field(description="Of the file; nodes may call one library by several names.")
    digest: Digest
    operators: list[str] | None = Field(
        description="Those that it adds; null: its backend cannot tell."
    )
    nodes: list[str]


class BackendView(View):
    """A backend as a node found it."""

    name: str
    version: str
    builds: list[str]
    measures: list[str]
    gpus_unused: str | None = Field(
        default=None, description="Why it uses none of the GPUs there that it is for."
    )


class NodeView(View):
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


class ArtifactView(View):
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
    lost: list[str] = Field(
        default_factory=list, description="Files that the bucket no longer has."
    )
    engine_expired_at: datetime | None = Field(
        default=None, description="When a quarantined engine was removed, by the operator's rule."
    )
    kept_back: str | None = Field(
        default=None,
        description="Why it is quarantined: its verdict, gates that it misses, or its search; or "
        "why it was revoked.",
    )
    revoked: RevocationView | None = None


class EventView(View):
    """One event of a build. ``kind``: snapshot, job, build or progress."""

    id: str
    kind: str
    build: str
    job: str | None = None
    data: dict[str, JsonValue]
    at: datetime
