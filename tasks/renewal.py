"""Keep a publisher's lease alive while it works, so that one that dies is soon followed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from enginefarm.errors import Unavailable
from storage import jobs
from tasks import lease
from tasks.farm import Farm

_log = structlog.get_logger()


@contextmanager
def renewed(farm: Farm, job_id: str, attempt: int) -> Iterator[None]:
    """Lengthen the lease of an attempt every third of it while the block runs."""
    done = threading.Event()

    def renew() -> None:
        while not done.wait(farm.policy.publish_lease_s / 3):
            try:
                with farm.database.transaction() as session:
                    until = lease.until(farm.policy.publish_lease_s)
                    jobs.renew_lease(session, job_id, attempt, until)
            except Unavailable as error:
                _log.warning("lease_not_renewed", job=job_id, code=error.code)

    thread = threading.Thread(target=renew, name="publish-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
