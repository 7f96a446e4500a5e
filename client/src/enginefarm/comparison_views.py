"""What the REST API answers of comparisons."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from enginefarm.comparison_report import ComparisonReport, ComparisonVerdict
from enginefarm.digest import Digest
from enginefarm.errors import Failure
from enginefarm.state import BuildState
from enginefarm.target import Target
from enginefarm.views import View


class ComparisonSummary(View):
    """A row of the list of comparisons. Its id is that of a build, which may be watched."""

    id: str
    state: BuildState
    target: Target
    first: Digest
    second: Digest
    verdict: ComparisonVerdict | None = Field(description="On the second; absent: not over.")
    cached: bool = Field(description="Whether an earlier measurement answered.")
    created_at: datetime
    finished_at: datetime | None


class ComparisonView(ComparisonSummary):
    """A comparison in full."""

    report: ComparisonReport | None
    signed: bool = Field(description="Whether GET …/attestation has the signed statement.")
    failure: Failure | None = None


class ComparisonPage(View):
    """A page of comparisons, newest first."""

    items: list[ComparisonSummary]
    next_cursor: str | None
