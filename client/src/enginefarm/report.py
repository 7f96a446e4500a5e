"""Reports: repairs, precision, accuracy and latency as data, schema version 6.

A number that was not measured is absent and ``reason`` says why; there are no defaults for
measurements. Latencies are milliseconds, sizes bytes, memory bytes.

Schema 1 had no ``cosine_worst``: its ``cosine`` was the worst sample's. A report may carry numbers
that were measured before schema 2, so look at whether ``cosine_worst`` is there. Schema 2 had no
``repair``; schema 3 had no ``precision``, ``psnr_db``, ``top5_agreement``, worst samples and
histograms; schema 4 had no ``precision_verdict``, no ``precision.sensitivity``, no
``precision.recipe.block_size``, no ``trust``, no ``device`` and no ``device_memory_bytes``; schema
5 had no ``tainted`` of gates, no ``trust`` of what was measured beside a twin, no ``streams``, no
``portability`` and no ``runtime_cache``.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from enginefarm.accuracy_report import MAX_BINS as MAX_BINS  # noqa: PLC0414
from enginefarm.accuracy_report import MAX_WORST as MAX_WORST  # noqa: PLC0414
from enginefarm.accuracy_report import AccuracyReport as AccuracyReport  # noqa: PLC0414
from enginefarm.accuracy_report import Histogram as Histogram  # noqa: PLC0414
from enginefarm.accuracy_report import MetricReport as MetricReport  # noqa: PLC0414
from enginefarm.accuracy_report import OutputAccuracy as OutputAccuracy  # noqa: PLC0414
from enginefarm.accuracy_report import WorstSample as WorstSample  # noqa: PLC0414
from enginefarm.accuracy_report import why_lost
from enginefarm.device_times import DeviceTimes as DeviceTimes  # noqa: PLC0414
from enginefarm.digest import Digest
from enginefarm.finding import Finding
from enginefarm.percentiles import Percentiles as Percentiles  # noqa: PLC0414
from enginefarm.precision_report import PrecisionReport
from enginefarm.repair_report import RepairReport
from enginefarm.runtime_cache import RuntimeCacheReport
from enginefarm.spec import Profile
from enginefarm.streams_report import StreamsReport as StreamsReport  # noqa: PLC0414
from enginefarm.target import Target
from enginefarm.trust_record import TrustRecord as TrustRecord  # noqa: PLC0414
from enginefarm.verdict_report import VerdictReport

REPORT_SCHEMA = 6


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Milliseconds = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]

TAINTED = "tainted_measurement"
MAX_MOMENTS = 240
MAX_KEPT_RUNS = 512
MAX_FINDINGS = 100
MAX_SKUS = 16
UNMEASURED_SKU = "unmeasured_sku"
NOT_FINITE = "engine_not_finite"


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
    swept: bool = Field(
        default=False, description="Whether it is one of a sweep over batches; no gate looks at it."
    )
    device: DeviceTimes | None = Field(
        default=None, description="Where the time goes on a GPU, by trtexec's names."
    )
    device_reason: str | None = Field(default=None, description="Why ``device`` is absent.")
    trust: TrustRecord | None = Field(default=None, description="Absent before schema 5.")
    streams: Annotated[list[StreamsReport], Field(max_length=16)] = Field(
        default=[], description="The same with several runs at a time, if that was asked for."
    )
    streams_reason: str | None = Field(
        default=None, description="Why ``streams`` lacks what was asked for."
    )


class TimingsReport(_Data):
    """What the timings of earlier builds did for this one."""

    begun_with: bool = Field(description="Whether it had the snapshot that it was given.")
    hits: Count | None = Field(
        default=None, description="Timings that came from there, by the runtime's own log."
    )
    refused: str | None = Field(default=None, description="Why the runtime did not take it.")
    kept_back: str | None = Field(
        default=None, description="Why what it has timed itself is not kept for others."
    )

    @property
    def said(self) -> str:
        """The same in words."""
        back = "" if self.kept_back is None else f"; its own are not kept: {self.kept_back}"
        return self._begun + back

    @property
    def _begun(self) -> str:
        if self.refused is not None:
            return f"all made anew, earlier ones were refused: {self.refused}"
        if not self.begun_with:
            return "all made anew: it began with none of earlier builds"
        if self.hits is None:
            return "those of earlier builds, too"
        return f"{self.hits} came from earlier builds"


class CompileReport(_Data):
    """What the build said of itself."""

    seconds: Annotated[float, Field(ge=0)]
    engine_bytes: Annotated[int, Field(gt=0)]
    peak_memory_bytes: Count
    warnings: list[str] = []
    device_memory_bytes: Count | None = Field(
        default=None, description="What an engine needs on its device to run, weights aside."
    )
    inspection_reason: str | None = Field(
        default=None, description="Why the engine tells nothing of its layers and device memory."
    )
    timings: TimingsReport | None = Field(
        default=None, description="Absent where nothing is timed, or no timings are kept."
    )


class BuildRecipe(_Data):
    """What decides an engine beside the model, the target and the backend."""

    key: str = Field(description="Of the recipe that the engine was compiled by.")
    profiles: list[Profile] = []
    options: dict[str, JsonValue] = Field(default={}, description="Those that were asked for.")
    plugins: dict[str, list[Digest]] = Field(
        default={}, description="Libraries that were loaded, by the backend that did."
    )


class SkuReport(_Data):
    """The engine on one SKU of its architecture, measured and judged by itself."""

    sku: str
    reason: str | None = Field(default=None, description="Why it was not measured there.")
    machine: Machine | None = None
    latency: list[LatencyReport] = []
    ratios: list[Annotated[float, Field(gt=0)] | None] = Field(
        default=[],
        description="Of each latency: its median to the one on the reference at the same shapes. "
        "Above 1 the engine is slower here.",
    )
    accuracy: AccuracyReport | None = None
    accuracy_reason: str | None = None
    runtime_cache: RuntimeCacheReport | None = None
    gates: list[GateVerdict] = []
    precision_verdict: VerdictReport | None = None


class PortabilityReport(_Data):
    """One engine on several SKUs, in the order in which they were asked for."""

    compiled_on: str | None = Field(
        default=None, description="The SKU that it was built on; absent: it needed none."
    )
    reference: str = Field(description="The SKU whose numbers the report itself has.")
    skus: Annotated[list[SkuReport], Field(max_length=MAX_SKUS)]


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
    precision: PrecisionReport | None = Field(
        default=None, description="Absent where the model was built in the precision it came in."
    )
    precision_verdict: VerdictReport | None = Field(
        default=None, description="Whether the precision is worth it; absent where none was asked."
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
    runtime_cache: RuntimeCacheReport | None = Field(
        default=None, description="What a first start leaves for the next; TensorRT-RTX alone."
    )
    versions: dict[str, str] = {}
    gates: list[GateVerdict] = Field(
        default=[], description="Of several SKUs each gate's worst verdict."
    )
    portability: PortabilityReport | None = Field(
        default=None, description="Absent where the build named no SKUs to measure on."
    )

    @property
    def measurement_labels(self) -> list[str]:
        """What the manifest warns of.

        :data:`TAINTED`: a time cannot be relied on. :data:`UNMEASURED_SKU`: the engine was not
        measured on each SKU that was asked for. :data:`NOT_FINITE`: it gives NaN or infinity.
        """
        skus = [] if self.portability is None else self.portability.skus
        verdicts = [self.precision_verdict, *(row.precision_verdict for row in skus)]
        beside = [row.trust for verdict in verdicts if verdict for row in verdict.speed]
        alone = [row.trust for row in self.latency]
        alone += [row.trust for sku in skus for row in sku.latency]
        tainted = any(trust and trust.tainted for trust in (*alone, *beside))
        unmeasured = any(row.reason for row in skus)
        lost = self.why_lost is not None
        return [TAINTED] * tainted + [UNMEASURED_SKU] * unmeasured + [NOT_FINITE] * lost

    @property
    def why_lost(self) -> str | None:
        """Where the engine gives NaN or infinity and the original does not; None: nowhere."""
        skus = [] if self.portability is None else self.portability.skus
        found = [("", self.accuracy), *((f" on {row.sku}", row.accuracy) for row in skus)]
        told = ((place, told and why_lost(told.outputs)) for place, told in reversed(found))
        return next((f"{why}{place}" for place, why in told if why), None)


class GateVerdict(_Data):
    """One gate, the value it saw, and whether it was met."""

    gate: str
    value: float | None = Field(
        description="What was measured; for a gate against an artifact, how much worse it is."
    )
    met: bool
    missed_by: float | None = Field(default=None, description="How far it is from the bound.")
    reason: str | None = None
    tainted: bool = Field(
        default=False, description="Whether it is not met since the number cannot be relied on."
    )
