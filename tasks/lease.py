"""A lease: the right of one node to speak for one attempt of a job, proven by a token."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta

from enginefarm.errors import LeaseLost
from enginefarm.state import JobState
from storage.database import now
from storage.models import Attempt, Job


def token_of(claim_id: str | None, job_id: str, attempt: int) -> str:
    """Return the token for a claim: the same for whoever repeats it, else one never seen before."""
    if claim_id is None:
        return secrets.token_urlsafe(32)
    return hashlib.sha256(f"lease {claim_id} {job_id} {attempt}".encode()).hexdigest()


def hashed(token: str) -> bytes:
    """Return what is kept of a token."""
    return hashlib.sha256(token.encode()).digest()


def until(seconds: float) -> datetime:
    """Return when a lease that begins now ends."""
    return now() + timedelta(seconds=seconds)


def speaks_for(row: Job | Attempt, node_id: str, token: str) -> bool:
    """Tell whether a node has, or had, the lease of this attempt."""
    same = hmac.compare_digest(row.lease_sha256 or b"\0", hashed(token))
    return same and row.node_id == node_id


def holds(job: Job, node_id: str, attempt: int, token: str) -> bool:
    """Tell whether a node has the lease of the attempt that runs."""
    current = job.state is JobState.RUNNING and job.attempt == attempt
    return current and speaks_for(job, node_id, token)


def require(job: Job | None, node_id: str, attempt: int, token: str) -> Job:
    """Return the job if the node holds its lease.

    Raises:
        LeaseLost: it never did, or the job has been given to another since (``lease_lost``).
    """
    if job is None or not holds(job, node_id, attempt, token):
        raise LeaseLost(
            "This attempt is no longer yours.",
            why="Its lease ended and the job was given to another, or was cancelled.",
            fix="Stop the child and forget what it made.",
        )
    return job
