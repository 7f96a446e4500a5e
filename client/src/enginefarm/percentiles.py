"""A distribution of times, in the numbers that trtexec gives."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Milliseconds = Annotated[float, Field(ge=0)]


class Percentiles(BaseModel):
    """A distribution of latencies in ms; percentiles by trtexec's rule (no interpolation)."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

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
