"""A lease: the right of one node to speak for one attempt of a job, proven by a token."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta

from enginefarm.errors import LeaseLost
from enginefarm.state import JobState
from storage.database import now
from storage.models import Job


def new_token() -> tuple[str, bytes]:
    """Return a token and what is kept of it."""
    token = secrets.token_urlsafe(32)
    return token, hashed(token)


def hashed(token: str) -> bytes:
    """Return what is kept of a token."""
    return hashlib.sha256(token.encode()).digest()


def until(seconds: float) -> datetime:
    """Return when a lease that begins now ends."""
    return now() + timedelta(seconds=seconds)


def speaks_for(job: Job, node_id: str, attempt: int, token: str) -> bool:
    """Tell whether a node holds, or was the last to hold, the lease of this attempt."""
    kept = job.lease_sha256 or b"\0"
    same = hmac.compare_digest(kept, hashed(token))
    return same and job.node_id == node_id and job.attempt == attempt


def require(job: Job | None, node_id: str, attempt: int, token: str) -> Job:
    """Return the job if the node holds its lease.

    Raises:
        LeaseLost: it never did, or the job has been given to another since (``lease_lost``).
    """
    if (
        job is None
        or job.state is not JobState.RUNNING
        or not speaks_for(job, node_id, attempt, token)
    ):
        raise LeaseLost(
            "This attempt is no longer yours.",
            why="Its lease ended and the job was given to another, or was cancelled.",
            fix="Stop the child and forget what it made.",
        )
    return job
