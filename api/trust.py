"""The farm's public keys. Open to everybody, since with them one verifies what one was given."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api import views
from api.auth import FarmOf
from api.openapi import problems
from enginefarm.digest import digest_of
from enginefarm.trust_views import TrustView
from storage import signing

router = APIRouter(prefix="/v1/trust", tags=["artifacts"])
MAX_AGE_S = 300
"""Short, so that a revoked key is soon known to be one."""


@router.get(
    "",
    summary="Fetch the farm's public keys",
    response_model=TrustView,
    responses=problems(
        503, good={304: {"description": "The keys are those of the ETag you named."}}
    ),
)
def keys(request: Request, farm: FarmOf) -> Response:
    """Return every public key: what it may sign for, since when, until when, and if revoked."""
    with farm.database.transaction() as session:
        view = TrustView(keys=[views.trust_key(row) for row in signing.trust_keys(session)])
    body = view.model_dump_json().encode()
    etag = f'"{digest_of(body)}"'
    headers = {"ETag": etag, "Cache-Control": f"public, max-age={MAX_AGE_S}"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)
