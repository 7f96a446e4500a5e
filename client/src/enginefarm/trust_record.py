"""Under which conditions a latency was measured, and whether it can be relied on.

What the machine does not tell is absent, and ``absent`` says why. Clocks are MHz, power watts,
energy millijoules.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Clock(_Data):
    """One clock of a GPU over a measurement, in MHz."""

    start: Annotated[int, Field(ge=0)]
    median: Annotated[float, Field(ge=0)]
    end: Annotated[int, Field(ge=0)]
    max: int | None = Field(default=None, description="The highest that the device has.")


class TrustRecord(_Data):
    """How the machine was while a latency was measured.

    ``tainted`` has a reason for each thing that speaks against the number; empty: nothing does.
    """

    exclusive: bool | None = Field(
        description="Whether nobody else was on the device; absent: it could not be told."
    )
    exclusive_proof: str = Field(description="From what that is known, or why it is not.")
    tainted: list[str] = []
    times_measured: Annotated[int, Field(ge=1)] = Field(
        default=1,
        description="One that is tainted, or was disturbed on a processor, is repeated; this is the"
        " last, or the clean one.",
    )
    samples: Annotated[int, Field(ge=0)] = Field(
        default=0, description="How often the device was looked at while it was measured."
    )
    sm_clock: Clock | None = None
    memory_clock: Clock | None = None
    throttle_reasons: list[str] | None = Field(
        default=None, description="Why clocks were held down; empty: they were not."
    )
    temperature_start_c: int | None = None
    temperature_max_c: int | None = None
    power_mean_w: float | None = None
    power_max_w: float | None = None
    power_limit_w: float | None = None
    energy_per_inference_mj: float | None = Field(
        default=None, description="Of the whole card, from its own counter, idle power included."
    )
    ecc: bool | None = None
    mig: bool | None = Field(default=None, description="Whether it is a MIG instance.")
    persistence: bool | None = None
    driver: str | None = None
    governor: str | None = Field(default=None, description="Of the processor's frequency.")
    load_before: float | None = Field(default=None, description="1-minute load average.")
    load_after: float | None = None
    absent: dict[str, str] = Field(default={}, description="Why a field is absent.")
