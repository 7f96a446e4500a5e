"""The attempts at a job: which node ran each, how it ended, what its log says."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import func, select, update

from enginefarm.errors import TooLarge
from enginefarm.state import Blame, JobState
from storage.database import Session, now
from storage.models import Attempt, Job

MOST_PLACES = 4096
"""Files of one attempt; each is a row's text and a question to the bucket."""


def failed_on(session: Session, job: Job, *, but: Collection[str] = ()) -> frozenset[str]:
    """Return the nodes on which the job has failed by their own fault, ``but`` for some codes."""
    rows = session.scalars(
        select(Attempt.node_id).where(
            Attempt.job_id == job.id,
            Attempt.state == JobState.FAILED,
            Attempt.failure["blame"].as_string() == Blame.NODE,
            Attempt.failure["code"].as_string().not_in(but),
        )
    )
    return frozenset(node_id for node_id in rows if node_id is not None)


def has_failed(session: Session, job: Job, code: str) -> bool:
    """Tell whether an attempt at the job has ended in a failure of this code."""
    rows = select(Attempt.number).where(
        Attempt.job_id == job.id, Attempt.failure["code"].as_string() == code
    )
    return session.scalars(rows.limit(1)).first() is not None


def start(
    session: Session, job: Job, node_id: str | None, lease_sha256: bytes | None = None
) -> None:
    """Write down that an attempt has begun, and what is kept of its lease's token."""
    session.add(
        Attempt(
            job_id=job.id,
            number=job.attempt,
            tenant_id=job.tenant_id,
            node_id=node_id,
            state=JobState.RUNNING,
            started_at=now(),
            log_tail="",
            lease_sha256=lease_sha256,
        )
    )


def find(session: Session, job_id: str, number: int) -> Attempt | None:
    """Return an attempt, whoever owns it; for the control plane and nodes only."""
    return session.get(Attempt, (job_id, number))


def give_places(session: Session, job: Job, digests: set[str], held: set[str]) -> None:
    """Remember for which bytes the running attempt was given a place.

    Those that are ``held`` its tenant had already; all others it must send.

    Raises:
        TooLarge: one attempt asks for too many (code ``too_many_places``).
    """
    row = session.get(Attempt, (job.id, job.attempt))
    if row is not None:
        row.places = sorted({*row.places, *digests})
        if len(row.places) > MOST_PLACES:
            raise TooLarge(
                f"One attempt asks where to put more than {MOST_PLACES} files.",
                code="too_many_places",
                fix="Bring the node to the farm's version.",
            )
        row.held = sorted({*row.held} - digests | held)


def must_send(session: Session, job: Job, lost: set[str]) -> None:
    """Remember that the bucket lacks what the attempt's tenant once had."""
    row = session.get(Attempt, (job.id, job.attempt))
    if row is not None:
        row.held = sorted({*row.held} - lost)


def at_work(session: Session, asked: set[tuple[str, int]]) -> set[tuple[str, int]]:
    """Return those of these attempts, by job and number, whose uploads may still be looked at."""
    going_on = Job.state.in_((JobState.RUNNING, JobState.UPLOADED))
    rows = session.execute(
        select(Job.id, Job.attempt).where(Job.id.in_({job_id for job_id, _ in asked}), going_on)
    )
    return asked & {(job_id, number) for job_id, number in rows}


def answer(session: Session, job: Job, number: int) -> None:
    """Remember the state that the node was told when it ended its attempt."""
    session.execute(
        update(Attempt)
        .where(Attempt.job_id == job.id, Attempt.number == number)
        .values(answered=job.state)
        .execution_options(synchronize_session=False)
    )


def end(session: Session, job: Job, number: int, state: JobState, **values: Any) -> None:  # noqa: ANN401 - column values
    """Write down how an attempt ended, unless it has ended already."""
    session.execute(
        update(Attempt)
        .where(
            Attempt.job_id == job.id,
            Attempt.number == number,
            Attempt.finished_at.is_(None),
        )
        .values(state=state, finished_at=now(), **values)
        .execution_options(synchronize_session=False)
    )


def judge(
    session: Session, job: Job, state: JobState, failure: dict[str, Any] | None = None
) -> None:
    """Write down what became of an attempt whose uploads have been looked at."""
    session.execute(
        update(Attempt)
        .where(
            Attempt.job_id == job.id,
            Attempt.number == job.attempt,
            Attempt.state == JobState.UPLOADED,
        )
        .values(state=state, failure=failure)
        .execution_options(synchronize_session=False)
    )


def append_log(session: Session, job: Job, text: str, cap: int) -> None:
    """Keep the newest ``cap`` characters of a running attempt's log."""
    session.execute(
        update(Attempt)
        .where(Attempt.job_id == job.id, Attempt.number == job.attempt)
        .values(log_tail=func.right(Attempt.log_tail + text, cap))
        .execution_options(synchronize_session=False)
    )
