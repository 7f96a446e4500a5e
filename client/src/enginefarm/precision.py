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
    FP8 = "fp8"
    INT4 = "int4"


class PrecisionTool(StrEnum):
    """What rewrites the model. ``modelopt``: NVIDIA ModelOpt, in an environment of its own."""

    ENGINEFARM = "enginefarm"
    ONNXRUNTIME = "onnxruntime"
    MODELOPT = "modelopt"


class OnSlower(StrEnum):
    """What becomes of an engine that is not faster than it would be without the precision."""

    QUARANTINE = "quarantine"
    PUBLISH = "publish"


class CalibrationMethod(StrEnum):
    """How the range of a tensor follows from the values that were seen of it.

    ``minmax``: all of them. ``percentile``: all but the largest few. ``entropy``: the range that
    loses least of their distribution. For int4, of which only weights are: ``rtn``: each block of
    a weight reaches its largest value. ``awq-lite`` scales what the samples excite most,
    ``awq-clip`` clips each block where the product loses least on them.
    """

    MINMAX = "minmax"
    ENTROPY = "entropy"
    PERCENTILE = "percentile"
    RTN = "rtn"
    AWQ_LITE = "awq-lite"
    AWQ_CLIP = "awq-clip"


MAKERS: dict[PrecisionKind, tuple[PrecisionTool, ...]] = {
    PrecisionKind.FP16: (PrecisionTool.ENGINEFARM, PrecisionTool.MODELOPT),
    PrecisionKind.BF16: (PrecisionTool.ENGINEFARM, PrecisionTool.MODELOPT),
    PrecisionKind.INT8: (PrecisionTool.ONNXRUNTIME, PrecisionTool.MODELOPT),
    PrecisionKind.FP8: (PrecisionTool.MODELOPT,),
    PrecisionKind.INT4: (PrecisionTool.MODELOPT,),
}
"""Which tools make a kind; the first is taken unless the build names another."""
TOOLS = {kind: makers[0] for kind, makers in MAKERS.items()}
"""Which tool makes a kind where the build names none."""
METHODS: dict[tuple[PrecisionKind, PrecisionTool], tuple[CalibrationMethod, ...]] = {
    (PrecisionKind.INT8, PrecisionTool.ONNXRUNTIME): (
        CalibrationMethod.PERCENTILE,
        CalibrationMethod.MINMAX,
        CalibrationMethod.ENTROPY,
    ),
    (PrecisionKind.INT8, PrecisionTool.MODELOPT): (
        CalibrationMethod.MINMAX,
        CalibrationMethod.ENTROPY,
    ),
    (PrecisionKind.FP8, PrecisionTool.MODELOPT): (
        CalibrationMethod.MINMAX,
        CalibrationMethod.ENTROPY,
    ),
    (PrecisionKind.INT4, PrecisionTool.MODELOPT): (
        CalibrationMethod.RTN,
        CalibrationMethod.AWQ_LITE,
        CalibrationMethod.AWQ_CLIP,
    ),
}
"""The methods of a tool for a kind; the first is taken unless the build names another."""
TYPES = {
    PrecisionKind.FP16: "float16",
    PrecisionKind.BF16: "bfloat16",
    PrecisionKind.INT8: "int8",
    PrecisionKind.FP8: "float8e4m3fn",
    PrecisionKind.INT4: "int4",
}
"""The number type that a kind brings into the model."""
STAGES = {
    PrecisionKind.FP16: Stage.CAST,
    PrecisionKind.BF16: Stage.CAST,
    PrecisionKind.INT8: Stage.CALIBRATE,
    PrecisionKind.FP8: Stage.CALIBRATE,
    PrecisionKind.INT4: Stage.CALIBRATE,
}
"""Which stage makes a kind."""
QUANTIZED_OPS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""What is quantized unless the build names its operators: what has int8 kernels everywhere."""
KIND_OPS: dict[PrecisionKind, tuple[str, ...]] = {
    PrecisionKind.FP8: ("Add", "Conv", "Gemm", "MatMul"),
    PrecisionKind.INT4: ("Gemm", "MatMul"),
}
"""The only operators that have a kind at all, where it is not for each to say."""
DEFAULT_PERCENTILE = 99.99
LEAST_COSINES = {PrecisionKind.FP16: 0.999}
LEAST_COSINE = 0.99
"""The cosine below which an output has lost too much, of a kind that has no number of its own."""
DEFAULT_BLOCK = 128
"""Values of a weight in a row that share a scale in int4."""
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
    method: CalibrationMethod | None = Field(
        default=None, description="int8, fp8 and int4; which ones there are depends on the tool."
    )
    percentile: Annotated[Real, Field(gt=50, le=100)] | None = Field(
        default=None, description="How much of what was seen is inside the range; percentile only."
    )
    per_channel: bool | None = Field(
        default=None,
        description="A scale for each channel of a weight; int8 by onnxruntime only.",
    )
    block_size: Annotated[Whole, Field(ge=16, le=1024, multiple_of=16)] | None = Field(
        default=None, description="Values of a weight that share a scale; int4 only."
    )
    op_types: Annotated[list[Operator], Field(max_length=64)] = Field(
        default=[], description="The only operators to change; empty: all that are worth it."
    )
    exclude: Annotated[list[Pattern], Field(max_length=256)] = Field(
        default=[], description="Nodes that stay as they are, by name; * and ? stand for any text."
    )
    calibration: Digest | None = Field(
        default=None,
        description="A dataset to take ranges from; needed by int8, fp8 and awq, and never the"
        " evaluation's.",
    )
    samples: Annotated[Whole, Field(ge=1, le=1 << 20)] | None = Field(
        default=None, description="Use the first so many samples; absent: all."
    )
    min_cosine: Annotated[Real, Field(ge=-1, le=1)] | None = Field(
        default=None, description="What each output must reach, or the verdict is regression."
    )
    on_slower: OnSlower | None = Field(
        default=None, description="Whether an engine that is not faster than its twin goes out."
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
    def least_cosine(self) -> float:
        """The cosine that each output must reach."""
        if self.min_cosine is not None:
            return self.min_cosine
        return LEAST_COSINES.get(self.kind, LEAST_COSINE)

    @property
    def maker(self) -> PrecisionTool | None:
        """The tool that makes it; None where nothing is to be made."""
        default = TOOLS.get(self.kind)
        return None if default is None else self.tool or default

    @property
    def chosen_method(self) -> CalibrationMethod | None:
        """The method that is asked for, or else the tool's first; None where it has none."""
        methods = () if self.maker is None else METHODS.get((self.kind, self.maker), ())
        return self.method or methods[0] if methods else None

    @property
    def needs_data(self) -> bool:
        """Whether samples decide what comes of it: all but what is cast, and int4 by ``rtn``."""
        return self.chosen_method not in {None, CalibrationMethod.RTN}

    @property
    def recipe(self) -> dict[str, Any]:
        """All that was asked for and all that follows from it, by name, as a key has it."""
        if self.maker is None:
            return {"kind": str(self.kind)}
        made: dict[str, Any] = {
            "kind": str(self.kind),
            "tool": str(self.maker),
            "op_types": sorted(set(self.op_types)),
            "exclude": sorted(set(self.exclude)),
            "calibration": self.calibration,
            "samples": self.samples,
        }
        if self.chosen_method is None:
            return made
        made["method"] = str(self.chosen_method)
        made["op_types"] = made["op_types"] or sorted(KIND_OPS.get(self.kind, ()))
        if self.maker is PrecisionTool.ONNXRUNTIME:
            made["per_channel"] = self.per_channel is not False
            made["op_types"] = made["op_types"] or sorted(QUANTIZED_OPS)
        if self.chosen_method is CalibrationMethod.PERCENTILE:
            made["percentile"] = self.percentile or DEFAULT_PERCENTILE
        if self.kind is PrecisionKind.INT4:
            made["block_size"] = self.block_size or DEFAULT_BLOCK
        if self.tried is not None:
            made["sensitivity"] = self.tried
        return made

    @property
    def tried(self) -> int | None:
        """How many layers are tried one at a time; None where it is not asked what they cost."""
        if isinstance(self.sensitivity, bool):
            return LAYERS_TRIED if self.sensitivity else None
        return self.sensitivity
