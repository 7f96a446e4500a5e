"""The nodes that take work, as the rules want them."""

from __future__ import annotations

from pydantic import TypeAdapter

from storage import nodes
from storage.database import Session
from storage.models import Node
from tasks.messages import NodeDescription
from tasks.plan import LiveNode

_DESCRIPTION = TypeAdapter(NodeDescription)


def live_nodes(session: Session) -> list[LiveNode]:
    """Return the nodes that take work, as the rules want them."""
    return [LiveNode(row.name, description_of(row)) for row in nodes.live(session)]


def description_of(row: Node) -> NodeDescription:
    """Return what a node said of itself."""
    return _DESCRIPTION.validate_python(row.description)
