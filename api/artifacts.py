"""Artifacts by digest: the manifest exactly as it was signed, and a summary to look at.

The manifest is the one representation of ``/v1/artifacts/{digest}``, whatever ``Accept`` says: its
bytes have the digest in the path, so that whoever holds only the digest can check them.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from api import artifact_views
from api.auth import Entrance, needs
from api.openapi import KEYED, problems
from api.parameters import DigestPath
from api.ranges import Verdict, judge
from api.release import artifact_for
from enginefarm.digest import repr_digest
from enginefarm.manifest import BUNDLE_TYPE, MANIFEST_TYPE
from enginefarm.revocation import RevocationView, RevokeRequest
from enginefarm.state import Scope
from enginefarm.views import ArtifactView
from storage import artifacts, lost, searches
from tasks import revoke as revoking

router = APIRouter(prefix="/v1/artifacts", tags=["artifacts"])
Deployer = Annotated[Entrance, Depends(needs(Scope.DEPLOY, Scope.READ))]
Submitter = Annotated[Entrance, Depends(needs(Scope.SUBMIT))]
JSON_LINES = "application/jsonl"
LOST = "X-Lost-Files"
"""Header that names the files of an artifact that the bucket no longer has."""


@router.get(
    "/{digest}",
    summary="Fetch a manifest",
    response_class=Response,
    responses=problems(
        *KEYED,
        404,
        410,
        good={
            200: {
                "description": "The manifest's bytes; their sha256 is the digest in the path.",
                "headers": {LOST: {"schema": {"type": "string"}}},
                "content": {MANIFEST_TYPE: {"example": {"schemaVersion": 2, "layers": []}}},
            },
            304: {"description": "You have it already."},
        },
    ),
)
def manifest(digest: DigestPath, request: Request, entrance: Deployer) -> Response:
    """Return the OCI image manifest of an artifact, byte for byte as it was signed."""
    with entrance.transaction() as (session, caller):
        row = artifact_for(session, caller, digest)
        data = row.manifest
        gone = artifact_views.artifact(
            row, lost.of_artifact(session, caller.tenant_id, digest)
        ).lost
    etag = f'"{digest}"'
    headers = {
        "ETag": etag,
        "Repr-Digest": repr_digest(digest),
        "Docker-Content-Digest": digest,
        # The bytes never change, but whether one may have them does.
        "Cache-Control": "private, no-cache",
        "X-Content-Type-Options": "nosniff",
    }
    if gone:
        headers[LOST] = ", ".join(gone)
    if judge(etag, None, request.headers.get("if-none-match")) is Verdict.NOT_MODIFIED:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=MANIFEST_TYPE, headers=headers)


@router.get("/{digest}/summary", summary="Show an artifact", responses=problems(*KEYED, 404, 410))
def summary(digest: DigestPath, entrance: Deployer) -> ArtifactView:
    """Return an artifact's state, files and report."""
    with entrance.transaction() as (session, caller):
        row = artifact_for(session, caller, digest, only_look=True)
        search = None if row.search_id is None else searches.find(session, row.search_id)
        return artifact_views.artifact(
            row, lost.of_artifact(session, caller.tenant_id, digest), search
        )


@router.post("/{digest}/revoke", summary="Revoke an artifact", responses=problems(*KEYED, 404))
def revoke(digest: DigestPath, asked: RevokeRequest, entrance: Submitter) -> RevocationView:
    """Take an artifact back for good; one that was revoked before stays as it is."""
    caller = entrance.caller()
    row = revoking.revoke(entrance.farm, caller.tenant_id, digest, asked.reason, caller.key_id)
    return artifact_views.revocation(row)


@router.get(
    "/{digest}/attestations",
    summary="Fetch attestations",
    response_class=Response,
    responses=problems(
        *KEYED,
        404,
        410,
        good={
            200: {
                "description": "Sigstore bundles, one to a line; an empty body if there are none.",
                "content": {JSON_LINES: {"example": f'{{"mediaType":"{BUNDLE_TYPE}"}}\n'}},
            }
        },
    ),
)
def attestations(
    digest: DigestPath,
    entrance: Deployer,
    predicate_type: Annotated[
        str | None,
        Query(description="Only of this type.", examples=["https://slsa.dev/provenance/v1"]),
    ] = None,
) -> Response:
    """Return the signed statements about an artifact, to verify with the farm's keys."""
    with entrance.transaction() as (session, caller):
        artifact_for(session, caller, digest)
        rows = artifacts.attestations(session, caller.tenant_id, digest)
        bundles = [row.bundle for row in rows if predicate_type in (None, row.predicate_type)]
    body = b"".join(bundle.strip() + b"\n" for bundle in bundles)
    headers = {"Cache-Control": "private, no-cache", "X-Subject-Digest": digest}
    return Response(body, media_type=JSON_LINES, headers=headers)
