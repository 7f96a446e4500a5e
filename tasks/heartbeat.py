"""A running job lives: lengthen its lease, pass on its progress, tell the node to stop if asked."""

from __future__ import annotations

from storage import attempts, jobs
from storage.database import now
from tasks import lease
from tasks.farm import Farm
from tasks.fault_points import reach
from tasks.messages import LeaseBeat, LeaseBeatReply


def beat(farm: Farm, node_id: str, job_id: str, message: LeaseBeat) -> LeaseBeatReply:
    """Keep a lease alive.

    Raises:
        LeaseLost: the attempt is no longer this node's.
    """
    with farm.database.transaction() as session:
        job = lease.require(
            jobs.lock(session, job_id), node_id, message.attempt, message.lease_token
        )
        job.lease_until = lease.until(farm.policy.lease_s)
        job.beat_at = now()
        if message.log_tail:
            text = message.log_tail.replace("\0", "\ufffd")  # PostgreSQL keeps no NUL
            attempts.append_log(session, job, text, farm.policy.log_tail_chars)
        cancel = job.cancel_requested_at is not None
        told = [(job.build_id, job.id)]
        if message.progress is not None:
            told += [(row.build_id, row.id) for row in jobs.followers(session, job.id)]
    if message.progress is not None:
        for build_id, its_job in told:
            farm.progress.publish(build_id, its_job, message.progress.model_dump())
    reach("beat.committed")
    return LeaseBeatReply(cancel=cancel, lease_s=farm.policy.lease_s)
