"""The precision that is asked for: what kind of numbers the model that is built computes with.

It is a property of the model file. A stage of its own writes a model in that precision, and
whatever builds an engine gets that file; no compiler is told a precision.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from enginefarm.digest import Digest
from enginefarm.numbers import Real, Whole
from enginefarm.state import Stage

Pattern = Annotated[
    str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")
]
Operator = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")]


class PrecisionKind(StrEnum):
    """What the model computes with; ``as-is``: with what its file says."""

    AS_IS = "as-is"
    FP16 = "fp16"
    BF16 = "bf16"
    INT8 = "int8"


class PrecisionTool(StrEnum):
    """What rewrites the model."""

    ENGINEFARM = "enginefarm"
    ONNXRUNTIME = "onnxruntime"


class CalibrationMethod(StrEnum):
    """How the range of a tensor follows from the values that were seen of it.

    ``minmax``: all of them. ``percentile``: all but the largest few. ``entropy``: the range that
    loses least of their distribution.
    """

    MINMAX = "minmax"
    ENTROPY = "entropy"
    PERCENTILE = "percentile"


TOOLS = {
    PrecisionKind.FP16: PrecisionTool.ENGINEFARM,
    PrecisionKind.BF16: PrecisionTool.ENGINEFARM,
    PrecisionKind.INT8: PrecisionTool.ONNXRUNTIME,
}
"""Which tool makes a kind."""
TYPES = {PrecisionKind.FP16: "float16", PrecisionKind.BF16: "bfloat16", PrecisionKind.INT8: "int8"}
"""The number type that a kind brings into the model."""
STAGES = {
    PrecisionKind.FP16: Stage.CAST,
    PrecisionKind.BF16: Stage.CAST,
    PrecisionKind.INT8: Stage.CALIBRATE,
}
"""Which stage makes a kind."""
QUANTIZED_OPS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""What is quantized unless the build names its operators: what has int8 kernels everywhere."""
DEFAULT_METHOD = CalibrationMethod.PERCENTILE
DEFAULT_PERCENTILE = 99.99
ENOUGH_SAMPLES = 512
"""Fewer samples than this are warned of."""
LAYERS_TRIED = 32
"""How many layers are tried one at a time where it is only asked what they cost."""
FEWEST_SAMPLES = 8
"""Fewer than this are refused where nothing held out judges what comes of them."""


class Precision(BaseModel):
    """A precision and how the model gets it. What is None is the farm's own choice."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    kind: PrecisionKind = PrecisionKind.AS_IS
    tool: PrecisionTool | None = None
    method: CalibrationMethod | None = Field(default=None, description="int8 only.")
    percentile: Annotated[Real, Field(gt=50, le=100)] | None = Field(
        default=None, description="How much of what was seen is inside the range; percentile only."
    )
    per_channel: bool | None = Field(
        default=None, description="A scale for each channel of a weight; int8 only."
    )
    op_types: Annotated[list[Operator], Field(max_length=64)] = Field(
        default=[], description="The only operators to change; empty: all that are worth it."
    )
    exclude: Annotated[list[Pattern], Field(max_length=256)] = Field(
        default=[], description="Nodes that stay as they are, by name; * and ? stand for any text."
    )
    calibration: Digest | None = Field(
        default=None,
        description="A dataset to take ranges from; needed by int8, and never the evaluation's.",
    )
    samples: Annotated[Whole, Field(ge=1, le=1 << 20)] | None = Field(
        default=None, description="Use the first so many samples; absent: all."
    )

    sensitivity: bool | Annotated[Whole, Field(ge=0, le=512)] | None = Field(
        default=None,
        description="Say what each layer costs in int8; a number: so many are tried one at a time,"
        " the others are estimated.",
    )

    @property
    def stage(self) -> Stage | None:
        """The stage that makes it; None where nothing is to be made."""
        return STAGES.get(self.kind)

    @property
    def recipe(self) -> dict[str, Any]:
        """All that was asked for and all that follows from it, by name, as a key has it."""
        if self.kind is PrecisionKind.AS_IS:
            return {"kind": str(self.kind)}
        made: dict[str, Any] = {
            "kind": str(self.kind),
            "tool": str(self.tool or TOOLS[self.kind]),
            "op_types": sorted(set(self.op_types)),
            "exclude": sorted(set(self.exclude)),
            "calibration": self.calibration,
            "samples": self.samples,
        }
        if self.kind is not PrecisionKind.INT8:
            return made
        method = self.method or DEFAULT_METHOD
        made |= {"method": str(method), "per_channel": self.per_channel is not False}
        made["op_types"] = made["op_types"] or sorted(QUANTIZED_OPS)
        if method is CalibrationMethod.PERCENTILE:
            made["percentile"] = self.percentile or DEFAULT_PERCENTILE
        if self.tried is not None:
            made["sensitivity"] = self.tried
        return made

    @property
    def tried(self) -> int | None:
        """How many layers are tried one at a time; None where it is not asked what they cost."""
        if isinstance(self.sensitivity, bool):
            return LAYERS_TRIED if self.sensitivity else None
        return self.sensitivity
