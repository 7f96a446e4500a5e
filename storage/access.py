"""Tenants and access keys. Only the sha256 of a key's secret is kept; comparison is constant-time.

A key reads ``ef_<id>_<secret>``: the id finds the row, the secret proves it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from enginefarm.errors import Unauthenticated
from enginefarm.state import Scope
from storage.database import Session, now
from storage.ids import new_id
from storage.models import ApiKey, Tenant

PREFIX = "ef"
_FORM_PARTS = 3
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
        scopes=[str(scope) for scope in scopes],
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
    parts = text.split("_")
    well_formed = len(parts) == _FORM_PARTS and parts[0] == PREFIX
    row = session.get(ApiKey, parts[1]) if well_formed else None
    expected = row.secret_sha256 if row is not None else _NOBODY
    same = hmac.compare_digest(sha256(parts[-1]), expected)
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


def sha256(secret: str) -> bytes:
    """Return what is kept of a secret."""
    return hashlib.sha256(secret.encode()).digest()


def _refusal(code: str, message: str) -> Unauthenticated:
    return Unauthenticated(
        message, code=code, fix="Ask the farm's operator for a key: python -m storage create-key."
    )
