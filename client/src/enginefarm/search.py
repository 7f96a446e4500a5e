"""What a search is asked for: the body of ``POST /v1/searches``.

A search builds one model for one target in several precisions, keeps what meets the requirements,
and chooses one. Its candidates are builds like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from enginefarm.digest import Digest
from enginefarm.errors import InvalidRequest
from enginefarm.gate import Gate, Metric
from enginefarm.numbers import Whole
from enginefarm.precision import (
    LAYERS_TRIED,
    CalibrationMethod,
    OnSlower,
    Operator,
    Pattern,
    Precision,
    PrecisionKind,
    PrecisionTool,
)
from enginefarm.spec import BuildSpec, Profile
from enginefarm.strict import Strict

MAX_CANDIDATES = 64
ProfileName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9._-]{0,30}[a-z0-9])?$")]
USUAL_KINDS = (
    *(PrecisionKind.INT8, PrecisionKind.FP16, PrecisionKind.BF16),
    *(PrecisionKind.FP8, PrecisionKind.INT4),
)
"""What is tried, as far as the target takes it, unless kinds are named."""
USUAL_REQUIREMENT = Gate(metric=Metric.COSINE, at_least=0.99)
"""What is required where nothing is required of accuracy."""


class SearchState(StrEnum):
    """Where a search stands. ``unmet``: it is over, and no candidate meets the requirements."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    UNMET = "unmet"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether nothing can follow."""
        return self is not SearchState.RUNNING


class Prefer(StrEnum):
    """What decides among candidates that meet the requirements."""

    LATENCY = "latency"
    SIZE = "size"
    MEMORY = "memory"
    ACCURACY = "accuracy"


class SearchSpace(Strict):
    """What may be tried. Empty: all that the target takes."""

    kinds: Annotated[list[PrecisionKind], Field(max_length=8)] = Field(
        default=[], description="The model as it came is tried in any case."
    )
    methods: Annotated[list[CalibrationMethod], Field(max_length=8)] = Field(
        default=[], description="Of int8."
    )
    tools: Annotated[list[PrecisionTool], Field(max_length=8)] = Field(
        default=[], description="Empty: all that a live node has."
    )
    op_types: Annotated[list[Operator], Field(max_length=64)] = Field(
        default=[], description="The only operators that any candidate changes."
    )
    exclude: Annotated[list[Pattern], Field(max_length=64)] = Field(
        default=[], description="Nodes that stay as they are in every candidate."
    )
    samples: Annotated[Whole, Field(ge=1, le=1 << 20)] | None = None
    layers: Annotated[Whole, Field(ge=1, le=128)] = Field(
        default=LAYERS_TRIED, description="Layers that are tried one at a time in int8."
    )
    profiles: Annotated[
        dict[ProfileName, Annotated[list[Profile], Field(min_length=1, max_length=16)]],
        Field(max_length=8),
    ] = Field(
        default={},
        description="Other profiles than the build's, each by a name: tried for the best"
        " candidates, and measured at the same shapes as these.",
    )


class SearchBudget(Strict):
    """When to stop, and how much to do at once."""

    candidates: Annotated[Whole, Field(ge=1, le=MAX_CANDIDATES)] = 12
    seconds: Annotated[Whole, Field(ge=1, le=30 * 86_400)] | None = Field(
        default=None, description="After so long nothing new is begun; what runs is waited for."
    )
    at_once: Annotated[Whole, Field(ge=1, le=16)] = 4


class SearchSpec(Strict):
    """A search: a build whose precision is to be found."""

    build: BuildSpec = Field(description="One target, and no precision of its own.")
    calibration: Digest | None = Field(
        default=None, description="A dataset to take ranges from; without one int8 is not tried."
    )
    require: Annotated[list[Gate], Field(max_length=16)] = Field(
        default=[],
        description="Bounds as those of gates. Where none is on accuracy: cosine >= 0.99.",
    )
    prefer: Prefer | None = Field(
        default=None, description="Absent: latency where it is measured, else size."
    )
    space: SearchSpace = SearchSpace()
    budget: SearchBudget = SearchBudget()


def measured_shapes(spec: SearchSpec) -> list[dict[str, list[int]]]:
    """Return the shapes at which all candidates are measured: the build's own, whatever profile."""
    asked = spec.build.options.benchmark.shapes
    return asked or [
        {name: row.opt for name, row in profile.items()} for profile in spec.build.profiles
    ]


def with_precision(
    spec: SearchSpec, precision: Precision, gates: Sequence[Gate], profile: str | None = None
) -> BuildSpec:
    """Return the build of a candidate: the search's, in a precision, with what it must meet.

    ``profile`` names another profile than the build's. The model is repaired and gets its precision
    as for the build's, so that this is done once, and is measured at the same shapes. What is
    required of accuracy is for the search to say, and not for the usual floor of a verdict; what is
    not faster goes out only where something else than latency decides.
    """
    given = spec.build.model_dump(mode="json")
    asked = precision.model_dump(mode="json")
    if precision.kind is not PrecisionKind.AS_IS:
        other = spec.prefer not in {None, Prefer.LATENCY}
        asked |= {"min_cosine": -1.0, "on_slower": OnSlower.PUBLISH if other else None}
    given |= {"precision": asked, "gates": list(gates)}
    if profile is not None:
        given |= {
            "profiles": spec.space.profiles[profile],
            "prepared_at": spec.build.prepared_at or spec.build.profiles,
        }
        given["options"]["benchmark"]["shapes"] = measured_shapes(spec)
    return BuildSpec.model_validate(given)


def require_one_target(spec: SearchSpec) -> None:
    """Refuse a search for several targets.

    Raises:
        InvalidRequest: ``search_target``.
    """
    if len(spec.build.targets) != 1:
        raise InvalidRequest(
            f"A search is for one target; the build names {len(spec.build.targets)}.",
            code="search_target",
            why="The fastest on one machine is not the fastest on another.",
            fix="Begin one search for each target: what they share is built once.",
        )
