"""What a person asks for: the body of ``POST /v1/builds``.

Every field is allow-listed; a misspelt one is refused and the nearest is named. The defaults
here are the only defaults.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from enginefarm.compared import Compared
from enginefarm.compile_options import (
    CompileOptions as CompileOptions,  # noqa: PLC0414 - a part of a spec
)
from enginefarm.compile_options import (
    GraphOptimization as GraphOptimization,  # noqa: PLC0414 - as above
)
from enginefarm.digest import Digest
from enginefarm.gate import EvaluationMetric as EvaluationMetric  # noqa: PLC0414 - a part of a spec
from enginefarm.gate import Gate as Gate  # noqa: PLC0414 - as above
from enginefarm.gate import Metric as Metric  # noqa: PLC0414 - as above
from enginefarm.gate import Unmeasured as Unmeasured  # noqa: PLC0414 - as above
from enginefarm.numbers import Real, Whole
from enginefarm.plugins import Plugins
from enginefarm.precision import Precision
from enginefarm.sku import EVERY, MOST_SKUS, Sku
from enginefarm.state import Stage
from enginefarm.strict import Name as Name  # noqa: PLC0414 - as above
from enginefarm.target import Target

LabelKey = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9._/-]{0,61}[a-z0-9])?$")]
LabelValue = Annotated[str, StringConstraints(max_length=128, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
Dim = Annotated[Whole, Field(ge=0, le=2**31 - 1)]


MAX_GATES = 32


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ShapeRange(_Strict):
    """The smallest, most usual and largest shape of one input."""

    min: list[Dim]
    opt: list[Dim]
    max: list[Dim]


Profile = dict[Name, ShapeRange]
"""One optimization profile: a shape range for each dynamic input."""


class NotFinite(StrEnum):
    """What becomes of an engine that gives NaN or infinity where the original does not."""

    QUARANTINE = "quarantine"
    PUBLISH = "publish"


class BenchmarkOptions(_Strict):
    """How to measure: warm up, then run until the median is stable.

    Times are milliseconds, ``stable_within`` is the largest relative change of the median between
    consecutive windows.
    """

    warmup_ms: Annotated[Whole, Field(ge=0, le=60_000)] = 200
    min_iterations: Annotated[Whole, Field(ge=10, le=1_000_000)] = 50
    min_duration_ms: Annotated[Whole, Field(ge=0, le=600_000)] = 1000
    max_duration_ms: Annotated[Whole, Field(ge=100, le=3_600_000)] = 15_000
    stable_within: Annotated[Real, Field(gt=0, le=1)] = 0.02
    threads: Annotated[Whole, Field(ge=0, le=1024)] = 0
    cuda_graph: bool = Field(default=False, description="Time replays of a CUDA graph, on a GPU.")
    batches: Annotated[list[Annotated[Whole, Field(ge=1, le=1 << 20)]], Field(max_length=16)] = (
        Field(default=[], description="Also measure with so many samples at a time.")
    )
    shapes: Annotated[list[dict[Name, list[Dim]]], Field(max_length=16)] = Field(
        default=[], description="Measure at these shapes, and not at the opt of each profile."
    )
    streams: Annotated[list[Annotated[Whole, Field(ge=1, le=64)]], Field(max_length=16)] = Field(
        default=[], description="Also measure with so many runs at a time, each in its own thread."
    )
    not_finite: NotFinite = Field(
        default=NotFinite.QUARANTINE,
        description="Whether an engine goes out that gives NaN or infinity where the original does"
        " not. It changes nothing of what is measured.",
    )


class RepairMode(StrEnum):
    """Whether a model may be rewritten before it is built."""

    AUTO = "auto"
    NONE = "none"


class Inexact(StrEnum):
    """Repairs that change what the model computes: done only where they are asked for."""

    RESTORE_FLOAT = "restore-float"


class FixedInput(_Strict):
    """What one input always is: one ``value`` in every element, one ``shape``, or both.

    An input with a value is no input of the engine; one with a shape is an input of that shape.
    """

    value: bool | int | float | None = None
    shape: list[Dim] | None = None

    @model_validator(mode="after")
    def _fixes_something(self) -> Self:
        if self.value is None and self.shape is None:
            message = "a fixed input needs a value or a shape"
            raise ValueError(message)
        return self


class RepairOptions(_Strict):
    """How a model is rewritten before it is built; every change is proven to change no result."""

    mode: RepairMode = RepairMode.AUTO
    fix_inputs: dict[Name, FixedInput] = {}
    allow: list[Inexact] = Field(default=[], description="Repairs that are not exact.")
    prune_unused: bool = Field(default=False, description="Remove inputs that no node reads.")
    drop_defaults: bool = Field(
        default=False, description="Take inputs that have default values for weights."
    )
    narrow_int64: bool = Field(
        default=False, description="Keep int64 constants whose values fit as int32."
    )
    keep_outputs: list[Name] = Field(
        default=[], description="The only outputs that are wanted; empty: all."
    )

    @property
    def asks(self) -> bool:
        """Whether something is asked for that cannot be had without the stage."""
        asked = (self.fix_inputs, self.allow, self.prune_unused, self.drop_defaults)
        return any(asked) or self.narrow_int64 or bool(self.keep_outputs)

    @model_validator(mode="after")
    def _none_asks_for_nothing(self) -> Self:
        if self.mode is RepairMode.NONE and self.asks:
            message = "mode none leaves the model as it is, but a repair is asked for"
            raise ValueError(message)
        return self


class StageOptions(_Strict):
    """Options by the stage they belong to, and what stages load."""

    repair: RepairOptions = RepairOptions()
    compile: CompileOptions = CompileOptions()
    benchmark: BenchmarkOptions = BenchmarkOptions()
    plugins: Plugins = Field(
        default={},
        description="Libraries that nodes must have and load, by digest, for each backend that"
        " loads them: operators of the model's own.",
    )


class SyntheticInput(_Strict):
    """How to make one input when no evaluation dataset is given.

    Either a constant ``value`` or uniform values from ``low`` to ``high`` inclusive.
    """

    value: Real | None = None
    low: Real | None = None
    high: Real | None = None

    @model_validator(mode="after")
    def _is_one_or_the_other(self) -> Self:
        bounded = self.low is not None and self.high is not None and self.low <= self.high
        neither = self.low is None and self.high is None
        if (self.value is not None and neither) or (self.value is None and bounded):
            return self
        message = "give either value, or low and high with low <= high"
        raise ValueError(message)


class Limits(_Strict):
    """The three clocks of a job, in seconds; absent: the operator's."""

    pending_s: Annotated[Whole, Field(ge=1, le=30 * 86_400)] | None = None
    running_s: Annotated[Whole, Field(ge=1, le=86_400)] | None = None
    silent_s: Annotated[Whole, Field(ge=1, le=86_400)] | None = None


class BuildSpec(_Strict):
    """A build: one model for one or more targets."""

    model: Digest
    targets: Annotated[list[Target], Field(min_length=1, max_length=32)]
    profiles: Annotated[list[Profile], Field(max_length=16)] = []
    prepared_at: Annotated[list[Profile], Field(max_length=16)] = Field(
        default=[],
        description="The profiles under which the model is repaired and gets its precision; empty:"
        " those that it is built for.",
    )
    options: StageOptions = StageOptions()
    precision: Precision = Precision()
    gates: Annotated[list[Gate], Field(max_length=MAX_GATES)] = []
    evaluation: Digest | None = Field(
        default=None, description="A dataset; absent: seeded synthetic inputs, and reports say so."
    )
    evaluation_metric: EvaluationMetric | None = Field(
        default=None, description="A measure of the answers by labels that lie in the dataset."
    )
    synthetic: dict[Name, SyntheticInput] = {}
    measure_on: Annotated[list[Sku], Field(max_length=MOST_SKUS)] = Field(
        default=[],
        description="Measure the one engine on each of these SKUs of its architecture; every: on "
        "all that live nodes have when the build is submitted. Empty: on any device that fits.",
    )
    seed: Annotated[Whole, Field(ge=0, le=2**32 - 1)] = 0
    priority: Annotated[Whole, Field(ge=0, le=9, description="0 is the most urgent.")] = 5
    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] = {}
    wait_for_node: Annotated[Whole, Field(ge=0, le=30 * 86_400)] = Field(
        default=0, description="Seconds to wait for a node that serves a target; 0: refuse at once."
    )
    limits: Limits = Limits()
    until: Stage | None = Field(
        default=None,
        description="check: stop before anything is built, and only say what is wrong.",
    )
    compare: Compared | None = Field(
        default=None, description="Of a comparison, which POST /v1/comparisons asks for."
    )

    @field_validator("until")
    @classmethod
    def _only_check(cls, value: Stage | None) -> Stage | None:
        if value not in {None, Stage.CHECK}:
            message = "a build can stop only after check"
            raise ValueError(message)
        return value

    @model_validator(mode="after")
    def _targets_differ(self) -> Self:
        if len(set(self.targets)) != len(self.targets):
            message = "the same target is named twice"
            raise ValueError(message)
        return self

    @field_validator("measure_on", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:  # noqa: ANN401 - pydantic hands over anything
        asked = [value] if isinstance(value, str) else value
        if isinstance(asked, list) and any(each in {"all", "any", "*"} for each in asked):
            message = f"for all SKUs write {EVERY}"
            raise ValueError(message)
        return asked

    @field_validator("measure_on")
    @classmethod
    def _skus_differ(cls, value: list[str]) -> list[str]:
        if len(set(value)) != len(value):
            message = "the same SKU is named twice"
            raise ValueError(message)
        if EVERY in value and len(value) > 1:
            message = f"{EVERY} stands for all SKUs: name no other beside it"
            raise ValueError(message)
        return value
