"""Comparisons of two artifacts: ask for one, look at it, and fetch what was signed."""

from __future__ import annotations

import uuid
from urllib.parse import quote

from enginefarm.client.transport import Transport
from enginefarm.comparison import ComparisonSpec
from enginefarm.comparison_views import ComparisonPage, ComparisonView


class Comparisons:
    """The comparisons of the key's tenant."""

    def __init__(self, transport: Transport) -> None:
        """Use a farm's connections."""
        self._transport = transport

    def begin(self, spec: ComparisonSpec, idempotency_key: str | None = None) -> ComparisonView:
        """Ask which of two artifacts is faster, or return what was asked for under the key."""
        response = self._transport.request(
            "POST",
            "/v1/comparisons",
            json=spec.model_dump(mode="json"),
            headers={"Idempotency-Key": idempotency_key or uuid.uuid4().hex},
        )
        return self._transport.read(response, ComparisonView)

    def get(self, comparison_id: str) -> ComparisonView:
        """Return a comparison in full."""
        return self._transport.get(_path(comparison_id), ComparisonView)

    def page(
        self, *, limit: int = 50, cursor: str | None = None, artifact: str | None = None
    ) -> ComparisonPage:
        """Return a page of comparisons, newest first."""
        params: dict[str, str | int | list[str]] = {"limit": limit}
        params |= {} if cursor is None else {"cursor": cursor}
        params |= {} if artifact is None else {"artifact": artifact}
        return self._transport.get("/v1/comparisons", ComparisonPage, params)

    def attestation(self, comparison_id: str) -> bytes:
        """Return the signed statement, to be verified: it is worth what its signature is worth."""
        return self._transport.request("GET", f"{_path(comparison_id)}/attestation").content


def _path(comparison_id: str) -> str:
    return f"/v1/comparisons/{quote(comparison_id, safe='')}"
