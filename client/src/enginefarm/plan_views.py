"""The answer to a dry run: what a submit would do, and for each miss what differs."""

from __future__ import annotations

from pydantic import Field, JsonValue

from enginefarm.digest import Digest
from enginefarm.finding import Finding
from enginefarm.step_view import StepView
from enginefarm.target import Target
from enginefarm.views import View


class KeyDifference(View):
    """A field in which a recipe differs from the nearest known one."""

    field: str
    this: JsonValue
    nearest: JsonValue


class MissView(View):
    """Why a key was not in the cache: the nearest key and the fields that differ."""

    nearest_key: Digest | None
    nearest_job: str | None
    differences: list[KeyDifference]


class PlannedJob(View, StepView):
    """What would happen to one stage. ``outcome``: cached, joined, build or wait."""

    key: Digest | None
    queue: str | None
    outcome: str
    source: str | None = Field(default=None, description="The job that is reused or joined.")
    nodes: list[str] = Field(default_factory=list)
    repairs: list[str] = Field(default=[], description="Known only where the job is cached.")
    memory_bytes: int | None = Field(
        default=None, description="What it is known to need, from an earlier build like it."
    )
    miss: MissView | None = None


class PlannedTarget(View):
    """The plan for one target."""

    target: Target
    backend_version: str | None
    measured: bool
    reason: str | None
    jobs: list[PlannedJob]
    findings: list[Finding] | None = Field(
        default=None,
        description="What the check of this model found, where that very check has run already.",
    )


class PlanView(View):
    """The answer to ``?dry_run=1``."""

    model: Digest
    targets: list[PlannedTarget]
    calibration: list[Finding] | None = Field(
        default=None,
        description="What is known of the calibration data: from the stage, if it has run as it"
        " would now, else from what was seen of the file. Absent without such data.",
    )
