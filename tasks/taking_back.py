"""What goes with an artifact that is taken back, and what rests on such.

What an artifact vouched for is its own doing: the model that was cast or calibrated for it, its
engine, its measurements. A repaired model, a check and the twin serve other builds as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from enginefarm.state import PRECISION_STAGES, JobState, Stage
from storage.models import Job
from tasks.chains import twin_jobs

_OWN = frozenset({*PRECISION_STAGES, Stage.COMPILE, Stage.BENCHMARK})
_AFTER_TWIN = frozenset({Stage.BENCHMARK, Stage.PUBLISH})


def goes_with(its_jobs: Sequence[Job]) -> list[Job]:
    """Return those of an artifact's jobs whose results nobody may take any more."""
    stages = {*_OWN, Stage.PUBLISH}
    return [row for row in its_jobs if row.twin is None and Stage(row.stage) in stages]


def rests_on(job: Job, its_jobs: Sequence[Job]) -> list[Job]:
    """Return those of a target's jobs without whose results a job is not what it is, or no use.

    What is measured beside a twin rests on the twin, too, unless that could not be built; and
    nobody needs the twin of an engine that is not measured.
    """
    twins = twin_jobs(its_jobs) if job.twin is not None or _is_beside(job, its_jobs) else []
    return [
        row
        for row in its_jobs
        if row.position < job.position
        and row.state is JobState.SUCCEEDED
        and Stage(row.stage) in _OWN
        and (row.twin is None or row in twins)
        # One SKU's measurement knows nothing of another's.
        and (row.stage != Stage.BENCHMARK or job.stage == Stage.PUBLISH)
    ]


def _is_beside(job: Job, its_jobs: Sequence[Job]) -> bool:
    return Stage(job.stage) in _AFTER_TWIN and any(
        row.stage == Stage.COMPILE and row.state is JobState.SUCCEEDED
        for row in twin_jobs(its_jobs)
    )
