"""Send the rings that the outbox holds. Several dispatchers may run; each takes other rows."""

from __future__ import annotations

import structlog
from celery import Celery
from kombu.exceptions import OperationalError

from enginefarm.errors import Unavailable
from enginefarm.state import JobState
from storage import builds, outbox
from storage.database import now
from tasks.app import ring
from tasks.farm import Farm
from tasks.messages import Ring

_log = structlog.get_logger()
_BATCH = 50


def dispatch(farm: Farm, app: Celery) -> int:
    """Send what is due; return how many rings went out.

    A ring whose transaction fails after it was sent is sent again: claims tolerate that.

    Raises:
        Unavailable: the broker is away (``broker_away``); the rows stay unsent.
    """
    with farm.database.transaction() as session:
        due = outbox.due(session, _BATCH)
        for row, job in due:
            row.sent_at = now()
            if job.state is not JobState.QUEUED or job.attempt != row.attempt:
                continue  # cancelled, claimed or tried again since
            build = builds.get(session, job.tenant_id, job.build_id)
            shown = {"model": build.model_name, "target": job.target, "build": build.id}
            message = Ring(job_id=row.job_id, attempt=row.attempt)
            try:
                ring(app, message, row.queue, priority=job.priority, shown=shown)
            except (OperationalError, OSError) as error:
                raise Unavailable(
                    "The broker does not take messages.",
                    code="broker_away",
                    why=f"{type(error).__name__}: {str(error)[:200]}",
                    fix="Nothing is lost; the rings are sent when it is back.",
                ) from error
    if due:
        _log.info("rings_sent", count=len(due))
    return len(due)
