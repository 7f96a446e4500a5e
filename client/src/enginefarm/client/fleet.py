"""The farm's nodes, and what they can build and measure."""

from __future__ import annotations

from enginefarm.client.transport import Transport
from enginefarm.views import NodeView, PluginView, TargetAvailability


class Fleet:
    """The machines behind a farm."""

    def __init__(self, transport: Transport) -> None:
        """Use a farm's connections."""
        self._transport = transport

    def nodes(self) -> list[NodeView]:
        """Return every node."""
        return self._transport.get_list("/v1/nodes", NodeView)

    def targets(self) -> list[TargetAvailability]:
        """Return every target, and the live nodes that serve it."""
        return self._transport.get_list("/v1/targets", TargetAvailability)

    def plugins(self) -> list[PluginView]:
        """Return the plugin libraries that live nodes have."""
        return self._transport.get_list("/v1/plugins", PluginView)
