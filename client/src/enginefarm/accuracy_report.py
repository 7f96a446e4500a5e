"""Accuracy as data: one model or engine against another, output by output.

A number that was not measured is absent; there are no defaults for measurements.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
Error = Annotated[float, Field(ge=0)]
Cosine = Annotated[float, Field(ge=-1, le=1)]


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


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
    top1_agreement: Annotated[float, Field(ge=0, le=1)] | None = Field(
        description="Only where the output is a score."
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
    notes: list[str] = Field(default=[], description="What to know before judging the numbers.")
