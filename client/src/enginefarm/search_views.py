"""What the REST API answers of searches."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from enginefarm.digest import Digest
from enginefarm.errors import Failure
from enginefarm.precision import Precision
from enginefarm.report import GateVerdict
from enginefarm.search import SearchSpec, SearchState
from enginefarm.sensitivity_report import KeptStep
from enginefarm.state import ArtifactState, BuildState
from enginefarm.target import Target
from enginefarm.views import View


class AccuracyOf(StrEnum):
    """What a candidate's accuracy is of. ``original``: the model as it came, which is exact."""

    ENGINE = "engine"
    MODEL_FILE = "model-file"
    ORIGINAL = "original"


class Outcome(BaseModel):
    """What came of a candidate. What was not measured is absent, and ``reason`` says why."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    accuracy_of: AccuracyOf | None = None
    synthetic: bool | None = Field(default=None, description="Whether inputs were made up.")
    cosine: float | None = Field(default=None, description="Of the worst output.")
    snr_db: float | None = None
    top1_agreement: float | None = None
    metric_loss: float | None = None
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None
    tainted: list[str] = Field(
        default=[],
        description="Why its latency cannot be relied on: then it meets no requirement on latency,"
        " and decides nothing.",
    )
    memory_bytes: int | None = Field(default=None, description="At most, while it was measured.")
    engine_bytes: int | None = None
    verdicts: list[GateVerdict] = Field(default=[], description="On each requirement.")
    set_aside: list[str] = Field(
        default=[], description="Requirements that nothing here can measure; they do not count."
    )
    met: bool = Field(
        default=False,
        description="Whether it meets all that can be judged, and nothing but the choice keeps its"
        " artifact back.",
    )
    held_back: str | None = Field(
        default=None,
        description="What keeps its artifact back besides the requirements and the choice: the"
        " verdict on its precision, or a gate of the build's own.",
    )
    accurate: bool = Field(default=False, description="Whether it meets those on accuracy.")
    layers: list[str] = Field(default=[], description="Layers by what they cost, costliest first.")
    steps: list[KeptStep] = []
    artifact: Digest | None = None
    artifact_state: ArtifactState | None = None
    engine: Digest | None = Field(default=None, description="Of the engine's bytes.")
    reason: str | None = None
    failure: Failure | None = None
    untried: bool = Field(
        default=False, description="Until the end no node had the tool for it; failure says which."
    )


class CandidateView(View):
    """One candidate: a build in one precision, for one of the profiles."""

    number: Annotated[int, Field(ge=1)]
    why: str = Field(description="Why it was tried.")
    precision: Precision
    profile: str | None = Field(
        default=None, description="By its name in the space; absent: the build's own."
    )
    build: str | None = Field(description="Absent: it was refused, or not tried.")
    build_state: BuildState | None
    outcome: Outcome | None = Field(description="Absent: it is not over.")
    on_front: bool = Field(
        default=False, description="No other candidate is as good in all that was measured."
    )


class SearchSummary(View):
    """A row of the list of searches."""

    id: str
    state: SearchState
    model: Digest
    model_name: str
    target: Target
    tried: int
    budget: int
    chosen: int | None = Field(default=None, description="The number of a candidate.")
    artifact: Digest | None = Field(default=None, description="Of the one that was chosen.")
    verdict: str = Field(default="", description="What was found, in words.")
    created_at: datetime
    finished_at: datetime | None


class SearchView(SearchSummary):
    """A search in full."""

    spec: SearchSpec
    notes: list[str] = Field(default=[], description="What to know of it from the beginning.")
    candidates: list[CandidateView]


class SearchPage(View):
    """A page of searches, newest first."""

    items: list[SearchSummary]
    next_cursor: str | None
