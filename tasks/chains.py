"""Which of a target's jobs belong together: those of its engine, and those of the engine's twin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from enginefarm.state import JobState
from storage.models import Job


def chain_of(job: Job, its_jobs: Sequence[Job]) -> list[Job]:
    """Return those of a target's jobs on whose results a job is built."""
    return engine_jobs(its_jobs) if job.twin is None else twin_jobs(its_jobs)


def engine_jobs(its_jobs: Iterable[Job]) -> list[Job]:
    """Return those of a target's jobs that make its engine and its artifact."""
    return [row for row in its_jobs if row.twin is None]


def twin_jobs(its_jobs: Iterable[Job]) -> list[Job]:
    """Return those of a target's jobs that make its twin."""
    return [row for row in its_jobs if row.twin is not None]


def is_past(job: Job) -> bool:
    """Tell whether the jobs after this one may start: a twin that cannot be built holds up none."""
    return job.state is JobState.SUCCEEDED or (job.twin is not None and job.state.terminal)


def standing(its_jobs: Iterable[Job]) -> list[JobState]:
    """Return the states that decide how a target stands: how a twin ended is not among them."""
    return [
        JobState(row.state)
        for row in its_jobs
        if row.twin is None or not JobState(row.state).terminal
    ]
