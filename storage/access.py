"""Tenants and access keys. Only the sha256 of a key's secret is kept; comparison is constant-time.

A key reads ``ef_<id>_<secret>``: the id finds the row, the secret proves it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from enginefarm.errors import NotFound, Unauthenticated
from enginefarm.state import Scope
from storage.database import Session, now
from storage.ids import new_id
from storage.models import ApiKey, Tenant

PREFIX = "ef"
_FORM = re.compile(rf"{PREFIX}_([0-9a-z]{{26}})_([0-9a-f]{{64}})")
_USED_EVERY = timedelta(minutes=1)
_NOBODY = b"\0" * 32


def ensure_tenant(session: Session, name: str) -> Tenant:
    """Return the tenant of that name, made now if need be."""
    session.execute(insert(Tenant).values(id=new_id("ten"), name=name).on_conflict_do_nothing())
    return session.scalars(select(Tenant).where(Tenant.name == name)).one()


def create_key(
    session: Session,
    tenant_id: str,
    name: str,
    scopes: Sequence[Scope],
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """Make a key; return its row and its text, which is shown this once."""
    secret = secrets.token_hex(32)
    row = ApiKey(
        id=new_id("key").removeprefix("key_"),
        tenant_id=tenant_id,
        name=name,
        secret_sha256=sha256(secret),
        scopes=sorted({str(scope) for scope in scopes}),
        expires_at=expires_at,
    )
    session.add(row)
    session.flush()
    return row, f"{PREFIX}_{row.id}_{secret}"


def authenticate(session: Session, text: str) -> ApiKey:
    """Return the key whose text this is.

    Raises:
        Unauthenticated: malformed or unknown (``key_unknown``), ``key_expired``, ``key_revoked``.
    """
    form = _FORM.fullmatch(text)
    if form is None:
        raise _refusal("key_unknown", "This access key is not known here.")
    row = session.get(ApiKey, form[1])
    expected = row.secret_sha256 if row is not None else _NOBODY
    same = hmac.compare_digest(sha256(form[2]), expected)
    if row is None or not same:
        raise _refusal("key_unknown", "This access key is not known here.")
    moment = now()
    if row.revoked_at is not None:
        raise _refusal("key_revoked", "This access key was revoked.")
    if row.expires_at is not None and row.expires_at <= moment:
        raise _refusal("key_expired", "This access key has expired.")
    if row.last_used_at is None or moment - row.last_used_at > _USED_EVERY:
        row.last_used_at = moment
    return row


def keys_of(session: Session, tenant: str | None = None) -> Sequence[tuple[ApiKey, Tenant]]:
    """Return every key with its tenant, the oldest first; only those of ``tenant`` if named."""
    asked = select(ApiKey, Tenant).join(Tenant, Tenant.id == ApiKey.tenant_id)
    if tenant is not None:
        asked = asked.where(Tenant.name == tenant)
    return [(key, owner) for key, owner in session.execute(asked.order_by(ApiKey.id))]


def revoke_key(session: Session, key_id: str) -> ApiKey:
    """End a key now; revoking it again changes nothing.

    Raises:
        NotFound: there is no such key (code ``unknown_key``).
    """
    row = session.get(ApiKey, key_id, with_for_update=True)
    if row is None:
        raise NotFound(
            f"There is no access key {key_id}.",
            code="unknown_key",
            fix="List them with python -m storage keys; an id is the middle part of ef_<id>_….",
        )
    row.revoked_at = row.revoked_at or now()
    return row


def sha256(secret: str) -> bytes:
    """Return what is kept of a secret."""
    return hashlib.sha256(secret.encode()).digest()


def _refusal(code: str, message: str) -> Unauthenticated:
    return Unauthenticated(
        message, code=code, fix="Ask the farm's operator for a key: python -m storage create-key."
    )
