"""What became of each repair, as data: part of the build's report.

A number that was not measured is absent, and ``why`` says what happened.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from enginefarm.repairs import Exactness
from enginefarm.spec import FixedInput

Count = Annotated[int, Field(ge=0)]
Error = Annotated[float, Field(ge=0)]


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Outcome(StrEnum):
    """What became of a pass."""

    NOTHING_TO_DO = "nothing-to-do"
    APPLIED = "applied"
    UNDONE = "undone"
    NOT_APPLIED = "not-applied"


class Proof(_Data):
    """The model before and after a pass, run on the same seeded inputs in ONNX Runtime."""

    shapes: list[dict[str, list[int]]] = Field(description="Each set of input shapes tried.")
    outputs: Count = Field(description="Tensors compared in all.")
    bit_equal: bool
    max_abs_error: Error | None
    max_rel_error: Error | None = Field(description="Largest error over the largest |before|.")


class PassReport(_Data):
    """One pass. ``why``: in words, what was changed, or why nothing was."""

    name: str
    version: int
    exactness: Exactness
    outcome: Outcome
    why: str
    proof: Proof | None = Field(default=None, description="Absent where nothing could be run.")


class RepairReport(_Data):
    """All passes, in the order in which they were tried."""

    passes: list[PassReport]
    changed: bool = Field(description="Whether the model that is built is not the original.")
    fixed: dict[str, FixedInput] = {}
    nodes_before: Count = Field(description="Nodes of the original, those of inner graphs, too.")
    nodes_after: Count
    seconds: Annotated[float, Field(ge=0)]

    @property
    def applied(self) -> list[PassReport]:
        """The passes that changed the model."""
        return [row for row in self.passes if row.outcome is Outcome.APPLIED]
