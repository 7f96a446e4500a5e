"""Only who was given a lease speaks for its attempt, and only while the job runs."""

from __future__ import annotations

import pytest

from enginefarm.errors import LeaseLost
from enginefarm.state import JobState
from storage.models import Job
from tasks import lease

CLAIM = "c" * 43


def new_token() -> tuple[str, bytes]:
    token = lease.token_of(None, "job_1", 2)
    return token, lease.hashed(token)


def test_a_claim_that_is_repeated_has_its_token_again_and_no_other_has() -> None:
    token = lease.token_of(CLAIM, "job_1", 2)

    assert lease.token_of(CLAIM, "job_1", 2) == token
    others = [("d" * 43, "job_1", 2), (CLAIM, "job_2", 2), (CLAIM, "job_1", 3), (None, "job_1", 2)]
    assert token not in {lease.token_of(*other) for other in others}
    assert CLAIM not in token
    assert new_token() != new_token()


def leased(token_kept: bytes | None, state: JobState = JobState.RUNNING) -> Job:
    return Job(id="job_1", state=state, node_id="node_1", attempt=2, lease_sha256=token_kept)


def test_the_holder_speaks_for_its_attempt() -> None:
    token, kept = new_token()
    job = leased(kept)

    assert lease.require(job, "node_1", 2, token) is job
    assert token.encode() not in kept


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.RUNNING])
def test_a_job_that_does_not_run_has_no_holder(state: JobState) -> None:
    token, kept = new_token()
    job = leased(kept, state)

    assert lease.speaks_for(job, "node_1", token)
    with pytest.raises(LeaseLost):
        lease.require(job, "node_1", 2, token)


def test_nobody_else_is_the_holder() -> None:
    token, kept = new_token()
    job = leased(kept)

    for node, attempt, said in (
        ("node_2", 2, token),
        ("node_1", 1, token),
        ("node_1", 2, new_token()[0]),
        ("node_1", 2, ""),
    ):
        with pytest.raises(LeaseLost):
            lease.require(job, node, attempt, said)
    with pytest.raises(LeaseLost):
        lease.require(None, "node_1", 2, token)
    with pytest.raises(LeaseLost):
        lease.require(leased(None), "node_1", 2, "")
