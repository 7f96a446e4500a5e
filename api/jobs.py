"""The log of an attempt: what has come so far while it runs, and all of it afterwards."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response
from fastapi.responses import PlainTextResponse, StreamingResponse

from api.auth import Entrance, needs
from api.openapi import KEYED, problems
from api.parameters import JobId
from enginefarm.errors import NotFound
from enginefarm.state import Scope
from storage import jobs
from storage.retention import Rule, setting_of

router = APIRouter(prefix="/v1/jobs", tags=["builds"])
Reader = Annotated[Entrance, Depends(needs(Scope.READ, Scope.SUBMIT))]
PART = "X-Log-Part"
"""Header that says whether this is the ``tail`` of a running attempt or the ``whole`` log."""


@router.get(
    "/{job_id}/attempts/{number}/log",
    summary="Read an attempt's log",
    response_class=PlainTextResponse,
    responses=problems(
        *KEYED,
        404,
        good={
            200: {
                "description": "The log as text; X-Log-Part says whether it is tail or whole.",
                "headers": {PART: {"schema": {"type": "string", "enum": ["tail", "whole"]}}},
                "content": {"text/plain": {"example": "[1] parsing the model\n"}},
            }
        },
    ),
)
def log(
    job_id: JobId,
    number: Annotated[int, Path(ge=1, le=1_000_000, description="1 is the first attempt.")],
    entrance: Reader,
) -> Response:
    """Return the log of one attempt."""
    with entrance.transaction() as (session, caller):
        attempt = jobs.attempt(session, caller.tenant_id, job_id, number)
        if attempt.log_expired_at is not None:
            raise _expired(number, attempt.log_expired_at)
        digest, tail = attempt.log_digest, attempt.log_tail
    if digest is None:
        headers = {PART: "tail", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return PlainTextResponse(tail, headers=headers)
    return StreamingResponse(
        entrance.farm.objects.stream(digest),
        media_type="text/plain; charset=utf-8",
        headers={PART: "whole", "X-Content-Type-Options": "nosniff"},
    )


def _expired(number: int, at: datetime) -> NotFound:
    return NotFound(
        f"The log of attempt {number} was removed on {at:%Y-%m-%d}.",
        code="log_expired",
        why="The operator keeps logs for so long and no longer "
        f"({setting_of(Rule.LOGS)}); how the attempt ended is kept.",
        fix="Build again if you need a log, and fetch it in time.",
        expired_at=at.isoformat(),
        rule=str(Rule.LOGS),
    )
