"""Blobs by digest: by default a redirect to the bucket, on request the bytes themselves.

What a digest names never changes, so the ETag is the digest and a copy may be kept for ever. The
redirect itself must not be kept: the URL in it ends after minutes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from api.auth import Entrance, needs, settings_of
from api.errors import problem_response
from api.openapi import KEYED, problems
from api.parameters import DigestPath, Flag
from api.ranges import Unsatisfiable, Verdict, judge, span_of
from api.release import blob_for
from enginefarm.digest import hex_of, repr_digest
from enginefarm.errors import Conflict, InvalidRequest, NotFound
from enginefarm.state import Scope
from storage import lost

_log = structlog.get_logger(__name__)
router = APIRouter(prefix="/v1/blobs", tags=["artifacts"])
Asker = Annotated[Entrance, Depends(needs(Scope.DEPLOY, Scope.READ, Scope.SUBMIT))]
Deployer = Annotated[Entrance, Depends(needs(Scope.DEPLOY, Scope.READ))]
Proxy = Annotated[Flag, Query(description="Send the bytes through the farm; no redirect.")]
_HEADERS = {
    name: {"schema": {"type": "string"}}
    for name in ("ETag", "Repr-Digest", "Accept-Ranges", "Cache-Control", "Content-Disposition")
}
_BYTES: dict[str, Any] = {
    "headers": _HEADERS,
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}
_RESPONSES: dict[int | str, dict[str, Any]] = problems(
    *KEYED,
    404,
    410,
    412,
    416,
    good={
        200: {"description": "All of the bytes.", **_BYTES},
        206: {"description": "The range that was asked for.", **_BYTES},
        304: {"description": "You have it already."},
        307: {
            "description": "Where the bytes are, for some minutes. Send no Authorization there.",
            "headers": {"Location": {"schema": {"type": "string"}}},
        },
    },
)


@router.get("/{digest}", summary="Fetch a blob", response_class=Response, responses=_RESPONSES)
def fetch(
    digest: DigestPath, request: Request, entrance: Deployer, *, proxy: Proxy = False
) -> Response:
    """Return a blob: a redirect to the bucket, or with ``proxy`` the bytes, whole or a range."""
    return _answer(digest, request, entrance, proxy=proxy)


@router.head(
    "/{digest}",
    summary="Ask for a blob's headers",
    response_class=Response,
    responses=problems(
        *KEYED,
        404,
        410,
        412,
        good={200: {"description": "Its size and headers.", "headers": _HEADERS}},
    ),
)
def head(
    digest: DigestPath, request: Request, entrance: Asker, *, proxy: Proxy = False
) -> Response:
    """Return what GET with ``proxy`` would, without the bytes."""
    return _answer(digest, request, entrance, proxy=proxy)


def _answer(digest: str, request: Request, entrance: Entrance, *, proxy: bool) -> Response:
    with entrance.transaction() as (session, caller):
        row = blob_for(session, caller, digest, only_headers=request.method == "HEAD")
        size, media_type, missed = row.size, row.media_type, row.lost_at is not None
    etag = f'"{digest}"'
    ask = request.headers
    verdict = judge(etag, ask.get("if-match"), ask.get("if-none-match"))
    if verdict is Verdict.PRECONDITION_FAILED:
        return problem_response(_other_bytes(digest), request.scope, 412)
    if verdict is Verdict.NOT_MODIFIED:
        return Response(status_code=304, headers=_kept_headers(digest))
    _require_there(entrance, digest, size, missed=missed)
    if request.method == "HEAD":
        return _head(digest, size, media_type)
    if not proxy:
        return _redirect(digest, size, media_type, request, entrance)
    try:
        span = span_of(ask.get("range"), ask.get("if-range"), etag, size)
    except Unsatisfiable:
        return _outside(size, request)
    objects = entrance.farm.objects
    headers = _kept_headers(digest) | {"Content-Length": str(size)}
    if span is None:
        chunks = objects.stream(digest)
    else:
        # The store's end is inclusive.
        chunks = objects.stream(digest, span.start, span.end - 1)
        headers |= {"Content-Length": str(span.length), "Content-Range": span.content_range}
    return StreamingResponse(
        _begun(chunks),
        status_code=200 if span is None else 206,
        media_type=media_type,
        headers=headers,
    )


def _require_there(entrance: Entrance, digest: str, size: int, *, missed: bool) -> None:
    """Ask the bucket before anybody is sent there; what it has lost is not taken from the cache.

    Raises:
        NotFound: it is not there, or not whole (code ``blob_lost``).
        Unavailable: the bucket is away.
    """
    info = entrance.farm.objects.head(digest)
    whole = info is not None and info.size == size and info.checksum_ok is not False
    if whole and not missed:
        return
    with entrance.farm.database.transaction() as session:
        if whole:
            lost.found(session, digest)
            return
        if lost.note(session, digest):
            _log.error("blob_lost", digest=digest)
    raise NotFound(
        f"The bucket has lost blob {digest}.",
        code="blob_lost",
        why="It was there when it was published or uploaded, and rows still refer to it.",
        fix="Submit the build again: what is lost is built anew. Or let the operator restore the "
        "bucket; python -m storage verify-blobs tells what else is lost.",
        digest=digest,
    )


def _begun(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Read the first chunk now, while it can still be answered that the bucket is away."""
    return itertools.chain([next(chunks, b"")], chunks)


def _head(digest: str, size: int, media_type: str) -> Response:
    headers = _kept_headers(digest) | {"Content-Length": str(size), "Content-Type": media_type}
    return Response(headers=headers)


def _redirect(
    digest: str, size: int, media_type: str, request: Request, entrance: Entrance
) -> Response:
    url = entrance.farm.objects.presign_get(
        digest,
        seconds=settings_of(request).presign_seconds,
        file_name=_file_name(digest),
        media_type=media_type,
    )
    headers = {
        "Location": url,
        "Cache-Control": "no-store",
        "Repr-Digest": repr_digest(digest),
        "X-Size": str(size),
    }
    return Response(status_code=307, headers=headers)


def _kept_headers(digest: str) -> dict[str, str]:
    return {
        "ETag": f'"{digest}"',
        "Repr-Digest": repr_digest(digest),
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, max-age=31536000, immutable",
        "Content-Disposition": f'attachment; filename="{_file_name(digest)}"',
        "X-Content-Type-Options": "nosniff",
    }


def _file_name(digest: str) -> str:
    return f"sha256-{hex_of(digest)}"


def _other_bytes(digest: str) -> Conflict:
    return Conflict(
        "The blob does not have the ETag that you named.",
        code="precondition_failed",
        why=f"The ETag of a blob is its digest, {digest}.",
        fix="Throw away what you have of it and fetch it from the start.",
    )


def _outside(size: int, request: Request) -> Response:
    error = InvalidRequest(
        f"The range lies outside of the {size} bytes.",
        code="range_not_satisfiable",
        fix="Ask for the size with HEAD first.",
        size=size,
    )
    response = problem_response(error, request.scope, 416)
    response.headers["Content-Range"] = f"bytes */{size}"
    return response
