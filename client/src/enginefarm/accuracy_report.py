"""Accuracy as data: one model or engine against another, output by output.

A number that was not measured is absent; there are no defaults for measurements.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from enginefarm.gate import MetricName

Count = Annotated[int, Field(ge=0)]
Error = Annotated[float, Field(ge=0)]
Cosine = Annotated[float, Field(ge=-1, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]

MAX_BINS = 128
MAX_WORST = 16


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


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
    nonfinite_added: Count | None = Field(
        default=None,
        description="Elements that are NaN or infinite in the engine, and in the original a number"
        " or another infinity; absent before schema 6.",
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

    @property
    def lost(self) -> int:
        """How many elements, at least, the engine gives no finite value for, and the original does.

        Reports without the count tell it from those of both sides.
        """
        more = self.nonfinite_engine - self.nonfinite_reference
        return max(more, self.nonfinite_added or 0, 0)


def why_lost(rows: Iterable[OutputAccuracy]) -> str | None:
    """Say for which output the engine gives NaN or infinity where the original does not, if any."""
    worst = max(rows, key=lambda row: row.lost, default=None)
    if worst is None or not worst.lost:
        return None
    of = "" if worst.elements is None else f" of {worst.elements}"
    return (
        f"the engine gives NaN or infinity in {worst.lost}{of} values of output {worst.output!r}"
        " where the original does not"
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
