"""Reports: repairs, accuracy and latency as data, schema version 4.

A number that was not measured is absent and ``reason`` says why; there are no defaults for
measurements. Latencies are milliseconds, sizes bytes, memory bytes.

Schema 1 had no ``cosine_worst``: its ``cosine`` was the worst sample's. A report may carry numbers
that were measured before schema 2, so look at whether ``cosine_worst`` is there. Schema 2 had no
``repair``; schema 3 had no ``psnr_db``, ``top5_agreement``, worst samples and histograms.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from enginefarm.finding import Finding
from enginefarm.gate import MetricName
from enginefarm.repair_report import RepairReport
from enginefarm.spec import Profile
from enginefarm.target import Target

REPORT_SCHEMA = 4


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Milliseconds = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Error = Annotated[float, Field(ge=0)]
Cosine = Annotated[float, Field(ge=-1, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]

MAX_BINS = 128
MAX_MOMENTS = 240
MAX_KEPT_RUNS = 512
MAX_WORST = 16
MAX_FINDINGS = 100


class Machine(_Data):
    """Where something was built or measured."""

    hostname: str
    cpu: str
    cores: int
    governor: str | None = None
    load_before: float | None = Field(default=None, description="1-minute load average.")
    load_after: float | None = None
    memory_bytes: int
    device: str = Field(description="'cpu', or the GPU's marketing name.")
    device_uuid: str | None = None
    driver: str | None = None
    cuda: str | None = None


class Histogram(_Data):
    """How many values lie between two edges: ``counts[i]`` from ``edges[i]`` to ``edges[i + 1]``.

    The first and the last bin hold what lies outside of the edges as well.
    """

    edges: Annotated[list[float], Field(min_length=2, max_length=MAX_BINS + 1)]
    counts: Annotated[list[Count], Field(min_length=1, max_length=MAX_BINS)]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.edges) != len(self.counts) + 1 or self.edges != sorted(self.edges):
            message = "a histogram has one edge more than bins, and its edges rise"
            raise ValueError(message)
        return self


class Percentiles(_Data):
    """A distribution of latencies in ms; percentiles by trtexec's rule (no interpolation)."""

    count: Annotated[int, Field(ge=1)]
    min: Milliseconds
    max: Milliseconds
    mean: Milliseconds
    std: Milliseconds
    cov: float = Field(ge=0, description="Coefficient of variation: std / mean.")
    p50: Milliseconds
    p90: Milliseconds
    p95: Milliseconds
    p99: Milliseconds

    @model_validator(mode="after")
    def _rises(self) -> Self:
        rising = [self.min, self.p50, self.p90, self.p95, self.p99, self.max]
        if rising != sorted(rising):
            message = "the percentiles do not rise from min to max"
            raise ValueError(message)
        return self


class Moment(_Data):
    """A stretch of a measurement: when it began, and how long its runs took."""

    at_ms: Milliseconds = Field(description="Since the first run that was measured.")
    p50: Milliseconds
    max: Milliseconds


class LatencyReport(_Data):
    """One measurement at one shape."""

    shapes: dict[str, list[int]]
    batch: int | None = Field(description="First dimension shared by the inputs, if there is one.")
    end_to_end_ms: Percentiles
    throughput_qps: float = Field(
        gt=0, description="Inferences per second of wall time, one stream."
    )
    warmup_iterations: Count
    warmup_ms: Milliseconds
    stable: bool = Field(description="Whether the median settled before the time limit.")
    notes: list[str] = []
    load_ms: Milliseconds
    peak_memory_bytes: Count
    threads: Count
    histogram: Histogram | None = Field(default=None, description="In ms.")
    over_time: Annotated[list[Moment], Field(max_length=MAX_MOMENTS)] = []
    runs_ms: Annotated[list[Milliseconds], Field(max_length=MAX_KEPT_RUNS)] = Field(
        default=[], description="Single runs, spread evenly over the measurement, in their order."
    )


class WorstSample(_Data):
    """One of the samples in which an output is furthest from the original's."""

    sample: Count = Field(description="Which one, in the order of the data; the first is 0.")
    together: Annotated[int, Field(ge=1)] = Field(
        default=1, description="How many it is of, where an output does not tell them apart."
    )
    max_abs_error: Error
    cosine: Cosine | None


class OutputAccuracy(_Data):
    """One output against the original model in fp32."""

    output: str
    dtype_reference: str
    dtype_engine: str
    max_abs_error: Error
    mean_abs_error: Error
    max_rel_error: Error | None = Field(description="Over elements with |reference| > 1e-6.")
    mean_rel_error: Error | None
    cosine: Cosine | None = Field(
        description="Of all samples as one vector; absent where both sides are all zero."
        " The worst sample's where cosine_worst is absent, as in schema 1."
    )
    cosine_worst: Cosine | None = Field(
        default=None,
        description="Of the worst sample by itself. Where the reference is near zero, rounding"
        " decides it: see reference_max_abs.",
    )
    snr_db: float | None = Field(
        description="Of all samples together; absent when the error or the signal is exactly zero."
    )
    exact: bool = Field(description="Every element equal.")
    psnr_db: float | None = Field(
        default=None,
        description="Peak (the largest |reference|) to the root of the mean squared error; absent"
        " where either is zero, and before schema 4.",
    )
    top1_agreement: Share | None = Field(description="Only where the output is a score.")
    top5_agreement: Share | None = Field(
        default=None,
        description="How often the original's best class is among the engine's five best; only"
        " where the output is a score over more than five.",
    )
    nonfinite_engine: Count
    nonfinite_reference: Count
    nan_reference: Count = Field(
        default=0,
        description="Elements of the original that are NaN: nobody knows what they should be, so"
        " no gate on accuracy is met.",
    )
    elements: Count | None = Field(
        default=None, description="Compared in all, finite or not; absent before schema 2."
    )
    reference_max_abs: float | None = Field(
        default=None, description="Largest finite |reference|: how strong the signal is."
    )
    reference_zero_share: float | None = Field(
        default=None, ge=0, le=1, description="Share of the reference that is exactly zero."
    )
    worst: Annotated[list[WorstSample], Field(max_length=MAX_WORST)] = Field(
        default=[],
        description="Those with the largest error and those with the smallest cosine.",
    )
    zero_errors: Count | None = Field(
        default=None, description="Elements without any error: they are in no bin."
    )
    errors: Histogram | None = Field(
        default=None, description="Of |engine - reference| where it is not zero."
    )


class MetricReport(_Data):
    """The build's own metric, by labels, of both sides on the same samples."""

    name: MetricName
    output: str
    labels: str = Field(description="The dataset's array of labels.")
    original: float | None = None
    engine: float | None = None
    loss: float | None = Field(default=None, description="How much worse the engine is.")
    counted: Count | None = Field(
        default=None, description="Samples, or labels, that the values are of."
    )
    reason: str | None = Field(default=None, description="Why there are no values.")


class AccuracyReport(_Data):
    """Engine against original, on data that is named."""

    reference: str = Field(description="What the engine was compared with.")
    data: str = Field(description="'dataset sha256:…' or 'synthetic, seed N'.")
    synthetic: bool
    samples: Annotated[int, Field(ge=1)]
    outputs: list[OutputAccuracy]
    not_compared: list[str] = Field(
        default=[], description="Outputs that are no tensors of numbers, such as text or maps."
    )
    metric: MetricReport | None = Field(default=None, description="Where the build asked for one.")
    notes: list[str] = Field(default=[], description="What to know before judging the numbers.")


class CompileReport(_Data):
    """What the build said of itself."""

    seconds: Annotated[float, Field(ge=0)]
    engine_bytes: Annotated[int, Field(gt=0)]
    peak_memory_bytes: Count
    warnings: list[str] = []


class BuildRecipe(_Data):
    """What decides an engine beside the model, the target and the backend."""

    key: str = Field(description="Of the recipe that the engine was compiled by.")
    profiles: list[Profile] = []
    options: dict[str, JsonValue] = Field(default={}, description="Those that were asked for.")


class BuildReport(_Data):
    """The report attached to an artifact as ``report.json``."""

    schema_version: int = REPORT_SCHEMA
    target: Target
    backend_version: str
    model: str
    model_name: str | None = None
    build: str | None = None
    recipe: BuildRecipe | None = Field(default=None, description="Absent before schema 4.")
    measured: bool
    reason: str | None = Field(default=None, description="Why nothing was measured.")
    repair: RepairReport | None = None
    repair_reason: str | None = Field(default=None, description="Why no repair was tried.")
    repaired_model: str | None = Field(
        default=None, description="The model that was built, if it is not the original."
    )
    findings: Annotated[list[Finding], Field(max_length=MAX_FINDINGS)] = Field(
        default=[], description="The first of what the check found and let pass."
    )
    compile: CompileReport
    compile_machine: Machine | None = None
    latency: list[LatencyReport] = []
    accuracy: AccuracyReport | None = None
    accuracy_reason: str | None = Field(
        default=None, description="Why accuracy is absent although the engine was run."
    )
    measure_machine: Machine | None = None
    versions: dict[str, str] = {}
    gates: list[GateVerdict] = []


class GateVerdict(_Data):
    """One gate, the value it saw, and whether it was met."""

    gate: str
    value: float | None = Field(
        description="What was measured; for a gate against an artifact, how much worse it is."
    )
    met: bool
    missed_by: float | None = Field(default=None, description="How far it is from the bound.")
    reason: str | None = None
