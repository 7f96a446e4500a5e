"""Questions about many rows at once: for pages of builds and for the farm's numbers.

Each answers with one query, however long the page is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import func, select

from enginefarm.state import BuildState, JobState
from storage import jobs
from storage.database import Session
from storage.models import Artifact, Attempt, Build, Job, Node, Outbox


def jobs_of_builds(session: Session, build_ids: Collection[str]) -> dict[str, list[Job]]:
    """Return the jobs of each of these builds, in the order in which they run."""
    rows = session.scalars(
        select(Job).where(Job.build_id.in_(build_ids)).order_by(Job.build_id, Job.position, Job.id)
    )
    found: dict[str, list[Job]] = defaultdict(list)
    for row in rows:
        found[row.build_id].append(row)
    return found


def attempts_of_jobs(session: Session, job_ids: Collection[str]) -> dict[str, list[Attempt]]:
    """Return the attempts of each of these jobs, the first one first."""
    rows = session.scalars(
        select(Attempt).where(Attempt.job_id.in_(job_ids)).order_by(Attempt.job_id, Attempt.number)
    )
    found: dict[str, list[Attempt]] = defaultdict(list)
    for row in rows:
        found[row.job_id].append(row)
    return found


def artifacts(session: Session, tenant_id: str, digests: Collection[str]) -> dict[str, Artifact]:
    """Return those of a tenant's artifacts that have these digests."""
    if not digests:
        return {}
    rows = session.scalars(
        select(Artifact).where(Artifact.tenant_id == tenant_id, Artifact.digest.in_(digests))
    )
    return {row.digest: row for row in rows}


def node_names(session: Session, node_ids: Collection[str]) -> dict[str, str]:
    """Return the names of these nodes."""
    rows = session.execute(select(Node.id, Node.name).where(Node.id.in_(node_ids)))
    return {row.id: row.name for row in rows}


def running_by_node(session: Session, tenant_id: str) -> dict[str, list[str]]:
    """Return which of a tenant's jobs each node runs."""
    rows = session.execute(
        select(Job.node_id, Job.id)
        .where(Job.tenant_id == tenant_id, Job.state == JobState.RUNNING, Job.node_id.is_not(None))
        .order_by(Job.id)
    )
    found: dict[str, list[str]] = defaultdict(list)
    for node_id, job_id in rows:
        if node_id is not None:
            found[node_id].append(job_id)
    return found


def newest_check(session: Session, tenant_id: str, key: str) -> Job | None:
    """Return the newest job of this key that ended by what it found, whether it stopped there."""
    return session.scalar(
        select(Job)
        .where(
            Job.tenant_id == tenant_id,
            Job.key == key,
            Job.cached_from.is_(None),
            (Job.state == JobState.SUCCEEDED)
            | ((Job.state == JobState.FAILED) & Job.failure["context"].has_key("findings")),
        )
        .order_by(Job.finished_at.desc())
        .limit(1)
    )


def builds_by_state(session: Session) -> dict[str, int]:
    """Count all builds by state."""
    rows = session.execute(select(Build.state, func.count()).group_by(Build.state))
    return {str(state): count for state, count in rows}


def unfinished_by_state_and_queue(session: Session) -> dict[tuple[str, str], int]:
    """Count the jobs that are not finished."""
    rows = session.execute(
        select(Job.state, Job.queue, func.count())
        .where(Job.state.in_(jobs.LIVE))
        .group_by(Job.state, Job.queue)
    )
    return {(str(state), queue or ""): count for state, queue, count in rows}


def nodes_by_state(session: Session) -> dict[str, int]:
    """Count the nodes by state."""
    rows = session.execute(select(Node.state, func.count()).group_by(Node.state))
    return {str(state): count for state, count in rows}


def unsent_rings(session: Session) -> int:
    """Count the rings that are written but not yet sent."""
    count = session.scalar(select(func.count()).select_from(Outbox).where(Outbox.sent_at.is_(None)))
    return count or 0


def build_states(session: Session, build_ids: Collection[str]) -> dict[str, BuildState]:
    """Return the states of these builds."""
    rows = session.execute(select(Build.id, Build.state).where(Build.id.in_(build_ids)))
    return {row.id: BuildState(row.state) for row in rows}
