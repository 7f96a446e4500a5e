"""Nodes: the machines that take jobs, and which of the caller's they run."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from api import views
from api.auth import Entrance, needs
from api.openapi import KEYED, problems
from enginefarm.state import Scope
from enginefarm.views import NodeView
from storage import nodes, overview

router = APIRouter(prefix="/v1/nodes", tags=["farm"])
Reader = Annotated[Entrance, Depends(needs(Scope.READ, Scope.SUBMIT))]


@router.get("", summary="List nodes", responses=problems(*KEYED))
def list_nodes(entrance: Reader) -> list[NodeView]:
    """Return every node, also those that have fallen silent."""
    with entrance.transaction() as (session, caller):
        running = overview.running_by_node(session, caller.tenant_id)
        return [views.node(row, running.get(row.id, [])) for row in nodes.everyone(session)]
