"""What became of the precision that was asked for, as data: part of the build's report.

A number that was not measured is absent, and a reason stands beside it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from enginefarm.accuracy_report import AccuracyReport
from enginefarm.finding import Finding
from enginefarm.precision import CalibrationMethod, PrecisionKind, PrecisionTool
from enginefarm.sensitivity_report import SensitivityReport

Count = Annotated[int, Field(ge=0)]
LABEL_SYNTHETIC = "synthetic_calibration"
"""The label of a model whose calibration data looks like noise."""


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PrecisionRecipe(_Data):
    """How the model got its precision; all of it is in the key."""

    kind: PrecisionKind
    tool: PrecisionTool
    tool_version: str = Field(
        description="Of ONNX Runtime, which quantizes, and judges what is cast; or of ModelOpt and"
        " of what it works with."
    )
    method: CalibrationMethod | None = None
    percentile: float | None = None
    per_channel: bool | None = None
    block_size: int | None = None
    op_types: list[str] = []
    exclude: list[str] = []
    calibration: str | None = None
    samples: int | None = None
    sensitivity: int | None = None


class KeptNode(_Data):
    """A node that computes as it did, and why."""

    node: str
    operator: str
    why: str


class InputRange(_Data):
    """What was seen of one input; ``evaluation_*``: in the held-out data, where there is any."""

    name: str
    min: float
    max: float
    mean: float
    std: Annotated[float, Field(ge=0)]
    evaluation_min: float | None = None
    evaluation_max: float | None = None


class CalibrationData(_Data):
    """The samples that ranges were taken from."""

    samples: Count
    duplicates: Count = Field(description="Samples that are the bytes of one before.")
    sizes: Count = Field(description="How many different sets of input shapes were seen.")
    inputs: list[InputRange]


class PrecisionReport(_Data):
    """The recipe, what was changed and kept, and how good the model file is."""

    recipe: PrecisionRecipe
    nodes: Count = Field(description="Nodes of the model as it came.")
    changed: Count = Field(description="Nodes that compute in the new precision.")
    kept: list[KeptNode] = Field(default=[], description="The first of those that do not.")
    kept_count: Count = 0
    data: CalibrationData | None = Field(default=None, description="Absent: none was given.")
    findings: list[Finding] = Field(default=[], description="What to know of the data.")
    labels: list[str] = []
    model_accuracy: AccuracyReport | None = Field(
        default=None,
        description="The model file, not the engine, against the model as it came, in ONNX Runtime"
        " on the CPU.",
    )
    model_accuracy_reason: str | None = None
    sensitivity: SensitivityReport | None = Field(
        default=None, description="What each layer costs; only where it is asked for."
    )
    sensitivity_reason: str | None = None
    model_bytes: Count = Field(description="Bytes of the model that was written.")
    seconds: Annotated[float, Field(ge=0)]
