"""Which step of a build a job is: its stage, and whether of the twin, or on one SKU."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from enginefarm.precision import PrecisionKind
from enginefarm.state import Stage


class StepView(BaseModel):
    """What tells the steps of a target apart."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    stage: Stage
    twin: PrecisionKind | None = Field(
        default=None, description="It builds the twin, in this precision, and not the engine."
    )
    sku: str | None = Field(default=None, description="The SKU that is measured on, if named.")

    @property
    def step(self) -> str:
        """The step in words: ``compile``, ``twin compile``, ``benchmark l4``."""
        words = str(self.stage) if self.twin is None else f"twin {self.stage}"
        return words if self.sku is None else f"{words} {self.sku}"
