"""Two artifacts measured in turns on one device, as data, schema version 1.

Both ran in one process, in windows that took turns (AB, BA, AB, …), so that what the machine did
meanwhile it did to both. Latencies are milliseconds of whole runs, inputs and outputs in the host's
memory. Accuracy is not judged.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from enginefarm.percentiles import Percentiles
from enginefarm.precision import PrecisionKind
from enginefarm.report import MAX_KEPT_RUNS, Machine, Milliseconds
from enginefarm.spec import BenchmarkOptions
from enginefarm.target import Target
from enginefarm.trust_record import TrustRecord
from enginefarm.verdict_report import CONFIDENCE as CONFIDENCE  # noqa: PLC0414 - the same for both
from enginefarm.verdict_report import MARGIN as MARGIN  # noqa: PLC0414 - as above
from enginefarm.verdict_report import MAX_PAIRS

COMPARISON_SCHEMA = 1
MAX_SHAPES = 16


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Positive = Annotated[float, Field(gt=0)]


class ComparisonVerdict(StrEnum):
    """What is said of the second artifact, held against the first.

    ``alike``: they differ by less than 3 %, with 99 % confidence. ``cannot_tell``: the measurement
    cannot be relied on, or its interval reaches over more than one answer.
    """

    FASTER = "faster"
    SLOWER = "slower"
    ALIKE = "alike"
    CANNOT_TELL = "cannot_tell"


class SideRuns(_Data):
    """The runs of one of the two."""

    end_to_end_ms: Percentiles
    runs_ms: Annotated[list[Milliseconds], Field(min_length=2, max_length=MAX_KEPT_RUNS)] = Field(
        description="Single runs, spread evenly over the measurement, in their order."
    )


class ComparedRuns(_Data):
    """What a node measured at one shape: windows of the first and of the second, in turns."""

    shapes: dict[str, list[int]]
    batch: int | None = Field(description="First dimension shared by the inputs, if there is one.")
    first: SideRuns
    second: SideRuns
    ratios: Annotated[list[Positive], Field(min_length=1, max_length=MAX_PAIRS)] = Field(
        description="Of each pair of windows, the first's median to the second's."
    )
    trust: TrustRecord


class ComparedAt(ComparedRuns):
    """The verdict at one shape. Above 1 the second is faster."""

    speedup: Positive = Field(description="The median of the ratios.")
    low: Positive | None = Field(description="The interval of the median; absent: too few pairs.")
    high: Positive | None
    confidence: float | None = Field(description="Of the interval, at least 0.99.")
    p_value: float = Field(
        description="By the ranks of the kept runs: how likely they are if both are alike."
    )
    second_takes_longer: float = Field(
        description="Probability that a run of the second takes longer than one of the first."
    )
    verdict: ComparisonVerdict
    why: str


class ComparisonSide(_Data):
    """One of the two artifacts."""

    artifact: str = Field(description="The digest of its manifest.")
    engine: str = Field(description="The digest of its engine, which was run.")
    engine_bytes: Annotated[int, Field(gt=0)]
    model: str
    model_name: str
    build: str
    backend_version: str | None = Field(description="That it was built with, if that is known.")
    precision: PrecisionKind


class ComparisonReport(_Data):
    """The whole comparison. The worst-known shape decides: what differs by shape is not told."""

    schema_version: int = COMPARISON_SCHEMA
    target: Target
    backend_version: str = Field(description="Of the runtime that ran both.")
    first: ComparisonSide
    second: ComparisonSide
    rows: Annotated[list[ComparedAt], Field(min_length=1, max_length=MAX_SHAPES)]
    verdict: ComparisonVerdict = Field(description="On the second artifact.")
    reason: str
    margin: float = MARGIN
    options: BenchmarkOptions
    data: str = Field(description="What both were fed with.")
    threads: Annotated[int, Field(ge=0)]
    machine: Machine | None = None
    versions: dict[str, str] = {}
    build: str = Field(description="The build that measured it.")
