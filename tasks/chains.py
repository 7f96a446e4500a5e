"""Which of a target's jobs belong together: of its engine, of the engine's twin, of its SKUs.

An engine that is measured on several SKUs has one benchmark for each. They run at the same time,
and the artifact waits for all of them; one that ends without a measurement holds up no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from enginefarm.state import JobState
from storage.models import Job


def chain_of(job: Job, its_jobs: Sequence[Job]) -> list[Job]:
    """Return those of a target's jobs on whose results a job is built."""
    return engine_jobs(its_jobs) if job.twin is None else twin_jobs(its_jobs)


def engine_jobs(its_jobs: Iterable[Job]) -> list[Job]:
    """Return those of a target's jobs that make its engine and its artifact."""
    return [row for row in its_jobs if row.twin is None and row.sku is None]


def sku_jobs(its_jobs: Iterable[Job]) -> list[Job]:
    """Return those of a target's jobs that measure its engine on one SKU each."""
    return [row for row in its_jobs if row.sku is not None]


def all_measured(its_jobs: Iterable[Job]) -> bool:
    """Tell whether no SKU is waited for any more, and the engine was measured on one at least."""
    rows = sku_jobs(its_jobs)
    done = any(row.state is JobState.SUCCEEDED for row in rows)
    return not rows or (done and all(row.state.terminal for row in rows))


def none_measured(its_jobs: Iterable[Job]) -> bool:
    """Tell whether SKUs were asked for, and the engine will be measured on none of them."""
    rows = sku_jobs(its_jobs)
    ended = all(row.state.terminal and row.state is not JobState.SUCCEEDED for row in rows)
    return bool(rows) and ended


def twin_jobs(its_jobs: Iterable[Job]) -> list[Job]:
    """Return those of a target's jobs that make its twin."""
    return [row for row in its_jobs if row.twin is not None]


def is_past(job: Job) -> bool:
    """Tell whether the jobs after this one may start: a twin that cannot be built holds up none."""
    return job.state is JobState.SUCCEEDED or (job.twin is not None and job.state.terminal)


def deciding(its_jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs that decide how a target stands.

    How a twin ended is not among them, nor a SKU without a measurement while, or because, there is
    another one.
    """
    lost = none_measured(its_jobs)
    return [
        row
        for row in its_jobs
        if not JobState(row.state).terminal
        or (row.twin is None and (row.sku is None or lost or row.state is JobState.SUCCEEDED))
    ]


def telling(its_jobs: Sequence[Job]) -> list[Job]:
    """Return those that tell what became of a target: its artifact, or why there is none."""
    return [row for row in deciding(its_jobs) if row.twin is None]


def standing(its_jobs: Sequence[Job]) -> list[JobState]:
    """Return the states that decide how a target stands."""
    return [JobState(row.state) for row in deciding(its_jobs)]
