"""What a test of the API has in its hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx

from api.settings import ApiSettings
from enginefarm.state import Scope
from storage import access
from storage.models import Base
from tasks.farm import Farm

TOKEN = "enrol-me-please"


@dataclass
class Served:
    """The API as a stranger sees it, and what stands behind it."""

    url: str
    farm: Farm
    settings: ApiSettings

    def key(self, *scopes: Scope, tenant: str = "acme", expires_at: datetime | None = None) -> str:
        """Return the text of a new key."""
        with self.farm.database.transaction() as session:
            owner = access.ensure_tenant(session, tenant)
            _, text = access.create_key(session, owner.id, "test", list(scopes), expires_at)
            return text

    def client(self, *scopes: Scope, tenant: str = "acme") -> httpx.Client:
        """Return a client with a key of its own."""
        return self.with_text(self.key(*scopes, tenant=tenant))

    def with_text(self, text: str | None) -> httpx.Client:
        """Return a client that shows ``text``, or nothing."""
        headers = {} if text is None else {"Authorization": f"Bearer {text}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30)

    def document(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        document: dict[str, Any] = httpx.get(f"{self.url}/openapi.json").json()
        return document

    def tenant(self, name: str = "acme") -> str:
        """Return a tenant's id."""
        with self.farm.database.transaction() as session:
            return access.ensure_tenant(session, name).id

    def rows(self, *tables: str) -> dict[str, int]:
        """Count the rows of these tables."""
        with self.farm.database.transaction() as session:
            return {name: session.query(Base.metadata.tables[name]).count() for name in tables}

    def left(self) -> list[str]:
        """Return what uploads left behind in the spool folder."""
        assert self.settings.spool_dir is not None
        return sorted(path.name for path in self.settings.spool_dir.rglob("*"))
