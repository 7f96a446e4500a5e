"""One farm, as one object with a member for each kind of thing it has."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import httpx

from enginefarm.client.artifacts import Artifacts
from enginefarm.client.builds import Builds
from enginefarm.client.catalogue import Datasets, Models
from enginefarm.client.comparisons import Comparisons
from enginefarm.client.fleet import Fleet
from enginefarm.client.searches import Searches
from enginefarm.client.timing_caches import TimingCaches
from enginefarm.client.transport import Transport
from enginefarm.trust_views import TrustView


class FarmClient:
    """A connection to a farm. Close it, or use it as a context manager."""

    def __init__(
        self, url: str, key: str | None = None, *, http: httpx.BaseTransport | None = None
    ) -> None:
        """Talk to the farm at ``url``; ``http`` stands for the network in tests."""
        self._transport = Transport(url, key, http=http)
        self.url = self._transport.url
        self.builds = Builds(self._transport)
        self.searches = Searches(self._transport)
        self.comparisons = Comparisons(self._transport)
        self.models = Models(self._transport)
        self.datasets = Datasets(self._transport)
        self.artifacts = Artifacts(self._transport)
        self.fleet = Fleet(self._transport)
        self.timing_caches = TimingCaches(self._transport)

    def trust(self) -> TrustView:
        """Return the farm's public keys. They are worth what the way they came is worth."""
        return self._transport.get("/v1/trust", TrustView)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connections."""
        self.close()
