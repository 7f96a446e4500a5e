"""Give up uploads in parts that nobody goes on with, and clear away what has ended."""

from __future__ import annotations

from datetime import timedelta

import structlog

from storage import uploads
from storage.database import now
from tasks.farm import Farm
from tasks.fault_points import reach
from tasks.part_plan import folder

_log = structlog.get_logger()


def tidy(farm: Farm) -> int:
    """Give up what nobody goes on with, and remove from the bucket what has ended."""
    before = now() - timedelta(seconds=farm.policy.upload_grace_s)
    with farm.database.transaction() as session:
        given_up = uploads.give_up(session, before)
        ended = uploads.to_clear(session)
        uploads.forget(session, before)
    for upload_id in ended:
        farm.objects.parts.clear(folder(upload_id))
        reach("verify.cleared")
        with farm.database.transaction() as session:
            uploads.cleared(session, upload_id)
    if given_up:
        _log.info("uploads_given_up", count=given_up)
    return len(ended)
