"""Nodes: the machines that take jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from api import views
from api.auth import Entrance, needs
from api.openapi import KEYED, problems
from enginefarm.state import Scope
from enginefarm.views import NodeView
from storage import jobs, nodes

router = APIRouter(prefix="/v1/nodes", tags=["farm"])
