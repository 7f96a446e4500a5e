"""What happens to a build, as it happens: server-sent events.

A stream begins with a snapshot, then brings the numbered events from the database and the progress
of running jobs from Valkey. An id is ``<seq>.<stream id>``: who comes back with it as
``Last-Event-ID`` misses no event and gets no second snapshot. The database is the truth; without
Valkey it is only asked more slowly. The stream ends after the event that ends the build.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from api.auth import Caller, Entrance, needs, settings_of
from api.builds import view_of
from api.feed import Cursor, Feed, not_an_id
from api.openapi import KEYED, problems
from api.parameters import BuildId
from enginefarm.errors import Unavailable
from enginefarm.state import BuildState, Scope
from storage import builds, events
from storage.models import Event

router = APIRouter(prefix="/v1/builds", tags=["builds"])
Reader = Annotated[Entrance, Depends(needs(Scope.READ, Scope.SUBMIT))]
STREAM = "text/event-stream"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_EXAMPLE = (
    "id: 4.1796000000000-0\nevent: job\n"
    'data: {"id":"4.1796000000000-0","kind":"job","build":"bld_06fh2k9w0q4s1x3z",'
    '"job":"job_06fh2k9w0q4s1x40","data":{"state":"running"},"at":"2026-11-30T12:00:00Z"}\n\n'
)


@dataclass(frozen=True)
class _Start:
    """Where a watcher begins."""

    cursor: Cursor
    snapshot: dict[str, Any] | None
    over: bool


@router.get(
    "/{build_id}/events",
    summary="Watch a build",
    response_class=StreamingResponse,
    responses=problems(
        *KEYED,
        404,
        good={
            200: {
                "description": "Events of the kinds snapshot, job, build and progress; each datum "
                "is an EventView. Comments keep the connection alive.",
                "content": {STREAM: {"schema": {"type": "string"}, "example": _EXAMPLE}},
            },
            204: {"description": "The build is over and you have seen its last event."},
        },
    ),
)
async def watch(
    build_id: BuildId,
    request: Request,
    entrance: Reader,
    last_event_id: Annotated[
        str | None, Header(description="The id of the last event you saw.")
    ] = None,
) -> Response:
    """Follow a build to its end."""
    resume = Cursor.parse(last_event_id) if last_event_id else None
    caller = await run_in_threadpool(_admit, entrance, build_id)
    if resume is None:
        # First the end of the stream, then the snapshot: what comes in between is told again.
        start = Cursor(stream=await _newest_entry(entrance, build_id))
        begin = await run_in_threadpool(_afresh, entrance, caller, build_id, start)
    else:
        begin = await run_in_threadpool(_again, entrance, caller, build_id, resume)
        if begin.over and begin.snapshot is None:
            return Response(status_code=204, headers=_HEADERS)
    feed = Feed(
        build_id,
        begin.cursor,
        rows_after=partial(_rows_after, entrance, caller, build_id),
        entries_after=partial(entrance.farm.progress.read, build_id),
        keep_alive_s=settings_of(request).keep_alive_s,
        closing=request.app.state.closing,
    )
    return StreamingResponse(
        feed.frames(begin.snapshot, over=begin.over), media_type=STREAM, headers=_HEADERS
    )


def _admit(entrance: Entrance, build_id: str) -> Caller:
    with entrance.transaction() as (session, caller):
        builds.get(session, caller.tenant_id, build_id)
        return caller


def _afresh(entrance: Entrance, caller: Caller, build_id: str, start: Cursor) -> _Start:
    with entrance.farm.database.transaction() as session:
        row = builds.get(session, caller.tenant_id, build_id)
        view = view_of(session, entrance, caller, build_id)
        return _Start(
            Cursor(row.event_seq, start.stream), view.model_dump(mode="json"), view.state.terminal
        )


def _again(entrance: Entrance, caller: Caller, build_id: str, resume: Cursor) -> _Start:
    with entrance.farm.database.transaction() as session:
        row = builds.get(session, caller.tenant_id, build_id)
        if row.events_expired_at is not None:
            # What is to follow is no longer kept: say where the build ended instead.
            view = view_of(session, entrance, caller, build_id)
            return _Start(resume, view.model_dump(mode="json"), over=True)
        if resume.seq > row.event_seq:
            # Whoever waits behind the last event would wait for ever, past the end of the build.
            raise not_an_id(str(resume), "This build has had no such event; another may have.")
        over = BuildState(row.state).terminal and resume.seq == row.event_seq
        return _Start(resume, None, over)


async def _rows_after(
    entrance: Entrance, caller: Caller, build_id: str, seq: int, limit: int
) -> list[Event]:
    def ask() -> list[Event]:
        # The key is looked at each time: a stream must not outlive it.
        with entrance.transaction() as (session, _):
            return list(events.after(session, caller.tenant_id, build_id, seq, limit))

    return await run_in_threadpool(ask)


async def _newest_entry(entrance: Entrance, build_id: str) -> str:
    """Return the id of the stream's last entry; it is capped, so reading through it is short."""
    newest = "0-0"
    # Without Valkey the feed finds out for itself, and asks the database instead.
    with suppress(Unavailable):
        while entries := await entrance.farm.progress.read(build_id, newest, 1):
            newest = entries[-1][0]
    return newest
