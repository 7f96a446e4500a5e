"""What the API answers about the farm's public keys."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from enginefarm.views import View


class TrustKey(View):
    """A public key and what it may sign for."""

    keyid: str
    public_key: str = Field(description="PEM, SubjectPublicKeyInfo.")
    builders: list[str]
    not_before: datetime
    not_after: datetime | None = None
    revoked_at: datetime | None = None


class TrustView(View):
    """The farm's public keys."""

    keys: list[TrustKey]
