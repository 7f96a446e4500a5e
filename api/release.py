"""What a deployer's key opens: published artifacts and their files, and nothing else.

A key that may ``read`` sees also what is quarantined, to find out why.
"""

from __future__ import annotations

from api.artifact_views import revocation
from api.auth import Caller
from enginefarm.errors import Forbidden, Gone, NotFound
from enginefarm.state import ArtifactState, Scope
from storage import artifacts, blobs, catalogue
from storage.database import Session
from storage.models import Artifact, Blob
from storage.retention import Rule, setting_of

_QUARANTINED = "the engines of quarantined artifacts"


def artifact_for(
    session: Session, caller: Caller, digest: str, *, only_look: bool = False
) -> Artifact:
    """Return an artifact that the caller may have; of a revoked one ``only_look`` is left.

    Raises:
        NotFound: the tenant has none of that digest.
        Gone: it was revoked (code ``artifact_revoked``).
        Forbidden: it is not published and the key only deploys (code ``artifact_not_published``).
    """
    row = artifacts.get(session, caller.tenant_id, digest)
    if row.state == ArtifactState.REVOKED and not (only_look and caller.may(Scope.READ)):
        raise _revoked(row)
    if row.state == ArtifactState.PUBLISHED or caller.may(Scope.READ):
        return row
    raise Forbidden(
        f"This artifact is {row.state}.",
        code="artifact_not_published",
        why="A key that only deploys may fetch published artifacts."
        + (f" It is a candidate of search {row.search_id}." if row.search_id else ""),
        fix="Look at the gates in its summary with a key that may read, or deploy another one.",
        state=row.state,
    )


def blob_for(session: Session, caller: Caller, digest: str, *, only_headers: bool = False) -> Blob:
    """Return a blob that the caller may have; who may submit may ask whether it is here.

    Raises:
        NotFound: the tenant has none of that digest (``unknown_blob``), or no longer
            (``blob_expired``).
        Gone: only what was revoked has it and the key only deploys (``artifact_revoked``).
        Forbidden: nothing published has it and the key only deploys (``blob_not_published``).
    """
    row = blobs.find(session, caller.tenant_id, digest)
    if row is None:
        _refuse_expired(session, caller, digest)
        raise NotFound(
            f"There is no blob {digest}.",
            code="unknown_blob",
            why="No model, dataset, log or artifact of yours has these bytes.",
            fix="Take the digest from a manifest or a list of files.",
        )
    known = caller.may(Scope.READ) or (only_headers and caller.may(Scope.SUBMIT))
    if known or artifacts.published_with(session, caller.tenant_id, digest):
        return row
    revoked = artifacts.revoked_with(session, caller.tenant_id, digest)
    if revoked is not None:
        raise _revoked(revoked)
    raise Forbidden(
        "No published artifact has this blob.",
        code="blob_not_published",
        why="A key that only deploys may fetch the files of published artifacts.",
        fix="Use a key that may read, or wait until the artifact is published.",
    )


def _revoked(row: Artifact) -> Gone:
    told = revocation(row)
    return Gone(
        f"The artifact {row.digest} was revoked on {told.revoked_at:%Y-%m-%d}.",
        code="artifact_revoked",
        why=f"The reason that was given: {told.reason.rstrip('.')}.",
        fix="Deploy another artifact of this model, and replace this one wherever it runs.",
        digest=row.digest,
    )


def _refuse_expired(session: Session, caller: Caller, digest: str) -> None:
    gone = catalogue.expired(session, caller.tenant_id, "blobs", digest)
    if gone is None:
        return
    of_twin = gone.rule == Rule.TWINS
    what = f"A file of a twin in {gone.name}" if of_twin else f"The engine of {gone.name}"
    kept = "what was built only to be measured beside" if of_twin else _QUARANTINED
    stays = "the numbers are in the report" if of_twin else "manifest and report are kept"
    raise NotFound(
        f"{what} was removed on {gone.expired_at:%Y-%m-%d}.",
        code="blob_expired",
        why=f"The operator keeps {kept} for so long and no longer "
        f"({setting_of(Rule(gone.rule))}); {stays}.",
        fix="Submit the build again if you need the engine.",
        digest=digest,
        expired_at=gone.expired_at.isoformat(),
        rule=gone.rule,
    )
