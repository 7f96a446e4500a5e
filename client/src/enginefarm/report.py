"""Reports: accuracy and latency as data, schema version 2.

A number that was not measured is absent and ``reason`` says why; there are no defaults for
measurements. Latencies are milliseconds, sizes bytes, memory bytes.

Schema 1 had no ``cosine_worst``: its ``cosine`` was the worst sample's. A report may carry numbers
that were measured before schema 2, so look at whether ``cosine_worst`` is there.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from enginefarm.target import Target

REPORT_SCHEMA = 2


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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


class Percentiles(_Data):
    """A distribution of latencies in ms; percentiles by trtexec's rule (no interpolation)."""

    count: int
    min: float
    max: float
    mean: float
    std: float
    cov: float = Field(description="Coefficient of variation: std / mean.")
    p50: float
    p90: float
    p95: float
    p99: float


class LatencyReport(_Data):
    """One measurement at one shape."""

    shapes: dict[str, list[int]]
    batch: int | None = Field(description="First dimension shared by the inputs, if there is one.")
    end_to_end_ms: Percentiles
    throughput_qps: float = Field(description="Inferences per second of wall time, one stream.")
    warmup_iterations: int
    warmup_ms: float
    stable: bool = Field(description="Whether the median settled before the time limit.")
    notes: list[str] = []
    load_ms: float
    peak_memory_bytes: int
    threads: int


class OutputAccuracy(_Data):
    """One output against the original model in fp32."""

    output: str
    dtype_reference: str
    dtype_engine: str
    max_abs_error: float
    mean_abs_error: float
    max_rel_error: float | None = Field(description="Over elements with |reference| > 1e-6.")
    mean_rel_error: float | None
    cosine: float | None = Field(
        description="Of all samples as one vector; absent where both sides are all zero."
        " The worst sample's where cosine_worst is absent, as in schema 1."
    )
    cosine_worst: float | None = Field(
        default=None,
        description="Of the worst sample by itself. Where the reference is near zero, rounding"
        " decides it: see reference_max_abs.",
    )
    snr_db: float | None = Field(
        description="Of all samples together; absent when the error or the signal is exactly zero."
    )
    exact: bool = Field(description="Every element equal.")
    top1_agreement: float | None = Field(description="Only where the output is a score.")
    nonfinite_engine: int
    nonfinite_reference: int
    reference_max_abs: float | None = Field(
        default=None, description="Largest finite |reference|: how strong the signal is."
    )
    reference_zero_share: float | None = Field(
        default=None, ge=0, le=1, description="Share of the reference that is exactly zero."
    )


class AccuracyReport(_Data):
    """Engine against original, on data that is named."""

    reference: str = Field(description="What the engine was compared with.")
    data: str = Field(description="'dataset sha256:…' or 'synthetic, seed N'.")
    synthetic: bool
    samples: int
    outputs: list[OutputAccuracy]
    notes: list[str] = Field(default=[], description="What to know before judging the numbers.")


class CompileReport(_Data):
    """What the build said of itself."""

    seconds: float
    engine_bytes: int
    peak_memory_bytes: int
    warnings: list[str] = []


class BuildReport(_Data):
    """The report attached to an artifact as ``report.json``."""

    schema_version: int = REPORT_SCHEMA
    target: Target
    backend_version: str
    model: str
    measured: bool
    reason: str | None = Field(default=None, description="Why nothing was measured.")
    compile: CompileReport
    compile_machine: Machine | None = None
    latency: list[LatencyReport] = []
    accuracy: AccuracyReport | None = None
    measure_machine: Machine | None = None
    versions: dict[str, str] = {}
    gates: list[GateVerdict] = []


class GateVerdict(_Data):
    """One gate, the value it saw, and whether it was met."""

    gate: str
    value: float | None
    met: bool
    reason: str | None = None
