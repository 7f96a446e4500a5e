"""Whether a precision is worth it, as data: the engine against its twin, measured side by side.

The twin is the same model without the precision, or in fp16 where that is what one would build
otherwise. Both ran in one process on one device, in windows that took turns.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from enginefarm.precision import OnSlower, PrecisionKind
from enginefarm.trust_record import TrustRecord

MARGIN = 0.03
"""By so much an engine must be faster than its twin: less matters to nobody."""
CONFIDENCE = 0.99
"""How sure it must be that it is faster at all."""
LONGER = "measure for longer (options.benchmark.min_duration_ms), or submit again"
MAX_PAIRS = 31
"""Pairs of windows at each shape."""


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Positive = Annotated[float, Field(gt=0)]
Runs = Annotated[int, Field(ge=1)]


class PrecisionVerdict(StrEnum):
    """What is said of an engine in another precision.

    ``accept``: faster than its twin, and as accurate as it must be. ``regression``: less accurate
    than it must be. ``slower``: not shown to be faster than its twin. ``infeasible``: it could
    not be built, or not be run.
    """

    ACCEPT = "accept"
    REGRESSION = "regression"
    SLOWER = "slower"
    INFEASIBLE = "infeasible"


class PairedRuns(_Data):
    """What a node measured at one shape: windows of the twin and of the engine, in turns."""

    shapes: dict[str, list[int]]
    twin_p50_ms: Positive
    engine_p50_ms: Positive
    twin_runs: Runs
    engine_runs: Runs
    ratios: Annotated[list[Positive], Field(min_length=1, max_length=MAX_PAIRS)] = Field(
        description="Of each pair of windows, the twin's median to the engine's."
    )
    trust: TrustRecord | None = Field(
        default=None, description="How the machine was meanwhile; absent before schema 6."
    )


class SpeedReport(PairedRuns):
    """How much faster than its twin the engine is; above 1 it is faster."""

    speedup: Positive = Field(description="The median of the ratios.")
    low: Positive | None = Field(description="The interval of the median; absent: too few pairs.")
    high: Positive | None
    confidence: float | None = Field(description="Of the interval, at least 0.99.")
    faster: bool = Field(
        description="Whether low is above 1, speedup at least 1.03, and nothing taints it."
    )

    @property
    def open(self) -> bool:
        """Whether a longer measurement might show that it is faster: the interval allows for it."""
        doubted = self.trust is not None and bool(self.trust.tainted)
        return not self.faster and not doubted and (self.high is None or self.high >= 1 + MARGIN)


class TwinReport(_Data):
    """What the engine is held against."""

    precision: PrecisionKind = Field(description="fp16, or as-is.")
    why: str = Field(description="Why it is in this precision.")
    engine: str | None = Field(default=None, description="Its digest; absent: it was not built.")
    engine_bytes: int | None = None
    compile_key: str | None = None


class FloorReport(_Data):
    """The output that lost most, and what it must reach."""

    of: str = Field(description="engine, or model file where the engine could not be run.")
    output: str
    metric: str = "cosine"
    least: float
    value: float
    missed_by: Positive | None = None


class VerdictReport(_Data):
    """The verdict with its numbers. ``reason`` says them in words, or why there is no verdict."""

    verdict: PrecisionVerdict | None
    reason: str
    held_back: bool = Field(description="Whether the verdict keeps the artifact from going out.")
    on_slower: OnSlower
    margin: float = MARGIN
    twin: TwinReport | None = None
    speed: list[SpeedReport] = []
    speed_reason: str | None = Field(default=None, description="Why speed is not known.")
    floor: FloorReport | None = None
    floor_reason: str | None = Field(default=None, description="Why accuracy is not judged.")

    @property
    def open(self) -> bool:
        """Whether it is called slower, and at no shape shown to be: nobody can tell yet."""
        undisturbed = [row for row in self.speed if row.trust is None or not row.trust.tainted]
        untold = [row for row in undisturbed if not row.faster]
        slower = self.verdict is PrecisionVerdict.SLOWER
        return slower and bool(untold) and all(row.open for row in untold)
