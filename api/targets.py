"""Targets: every one the farm knows, and which live nodes build and measure it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from api import views
from api.auth import Entrance, needs
from api.openapi import KEYED, problems
from enginefarm.state import Scope
from enginefarm.target import BACKEND_ARCHITECTURES, Target
from enginefarm.views import TargetAvailability
from storage import nodes

router = APIRouter(prefix="/v1/targets", tags=["farm"])
Reader = Annotated[Entrance, Depends(needs(Scope.READ, Scope.SUBMIT))]


@router.get("", summary="List targets", responses=problems(*KEYED))
def list_targets(entrance: Reader) -> list[TargetAvailability]:
    """Return every target; one that no live node serves has empty lists."""
    with entrance.transaction() as (session, _):
        live = nodes.live(session)
        return [
            views.availability(Target(backend=backend, arch=arch), live)
            for backend, architectures in BACKEND_ARCHITECTURES.items()
            for arch in architectures
        ]
