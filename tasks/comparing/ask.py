"""Ask for a comparison: what an idempotency key asked for before is answered as it is."""

from __future__ import annotations

from dataclasses import replace

from enginefarm.comparison import ComparisonSpec
from enginefarm.digest import canonical_json, digest_of
from storage import builds
from storage.database import Session
from tasks.comparing.begin import build_for
from tasks.farm import Policy
from tasks.submit import Accepted, Requester, accepted_before, submit


def ask(session: Session, policy: Policy, requester: Requester, asked: ComparisonSpec) -> Accepted:
    """Accept a comparison, or return the one that was accepted under the idempotency key.

    That one is looked for first: its artifacts may have been revoked, or be gone, since. The
    tenant's lock is taken before artifacts are read, so that none is removed in between.

    Raises:
        NotFound: the tenant has no such artifact.
        InvalidRequest: they cannot be run side by side.
    """
    builds.lock_tenant(session, requester.tenant_id)
    request = digest_of(canonical_json(asked.model_dump(mode="json")))
    known = accepted_before(session, requester, request)
    if known is not None:
        return known
    build = build_for(session, requester.tenant_id, asked, requester.idempotency_key)
    return submit(session, policy, replace(requester, request_digest=request), build)
