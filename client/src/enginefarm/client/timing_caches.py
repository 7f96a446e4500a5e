"""The timing caches of a farm's tenant."""

from __future__ import annotations

from enginefarm.client.transport import Transport
from enginefarm.timing_views import TimingCacheView

_PATH = "/v1/timing-caches"


class TimingCaches:
    """What builds have left for the next."""

    def __init__(self, transport: Transport) -> None:
        """Use a farm's connections."""
        self._transport = transport

    def all(self) -> list[TimingCacheView]:
        """Return every namespace, the one that changed last first."""
        return self._transport.get_list(_PATH, TimingCacheView)

    def one(self, namespace: str) -> TimingCacheView:
        """Return a namespace and its snapshots."""
        return self._transport.get(f"{_PATH}/{namespace}", TimingCacheView)

    def pin(self, namespace: str, generation: int | None) -> TimingCacheView:
        """Hold a snapshot; None: the newest again."""
        answer = self._transport.request(
            "POST", f"{_PATH}/{namespace}/pin", json={"generation": generation}
        )
        return self._transport.read(answer, TimingCacheView)

    def drop(self, namespace: str) -> TimingCacheView:
        """Forget every snapshot of a namespace."""
        answer = self._transport.request("POST", f"{_PATH}/{namespace}/drop")
        return self._transport.read(answer, TimingCacheView)
