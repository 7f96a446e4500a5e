"""Targets: every one the farm knows, which live nodes build and measure it, and with what else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Depends

from api.auth import Entrance, needs
from api.openapi import KEYED, problems
from enginefarm.state import Scope
from enginefarm.target import BACKEND_ARCHITECTURES, NOT_IN_THIS_VERSION, Target
from enginefarm.views import PluginView, TargetAvailability
from storage import nodes
from storage.models import Node
from tasks.fleet import description_of
from tasks.messages import NodeDescription
from tasks.routing import skus_of

router = APIRouter(prefix="/v1/targets", tags=["farm"])
plugins_router = APIRouter(prefix="/v1/plugins", tags=["farm"])
Reader = Annotated[Entrance, Depends(needs(Scope.READ, Scope.SUBMIT))]


@router.get("", summary="List targets", responses=problems(*KEYED))
def list_targets(entrance: Reader) -> list[TargetAvailability]:
    """Return every target; one that no live node serves has empty lists."""
    with entrance.transaction() as (session, _):
        live = nodes.live(session)
        return [
            availability(Target(backend=backend, arch=arch), live)
            for backend, architectures in BACKEND_ARCHITECTURES.items()
            for arch in architectures
        ]


@plugins_router.get("", summary="List plugins", responses=problems(*KEYED))
def list_plugins(entrance: Reader) -> list[PluginView]:
    """Return the plugin libraries that live nodes have: what a build may name."""
    with entrance.transaction() as (session, _):
        return installed_on((row.name, description_of(row)) for row in nodes.live(session))


def installed_on(nodes: Iterable[tuple[str, NodeDescription]]) -> list[PluginView]:
    """Show the libraries of some nodes, each once for its backend, and which nodes have it."""
    found: dict[tuple[str, str], PluginView] = {}
    for name, told in nodes:
        for backend in told.backends:
            for row in backend.plugins:
                here = PluginView(
                    backend=backend.name,
                    name=row.name,
                    digest=row.digest,
                    operators=row.operators,
                    nodes=[],
                )
                known = found.setdefault((backend.name, row.digest), here)
                known.nodes.append(name)
    return sorted(found.values(), key=lambda row: (row.backend, row.name, row.digest))


def availability(target: Target, nodes: Iterable[Node]) -> TargetAvailability:
    """Show which of ``nodes`` build and measure a target."""
    compiles, measures, versions, skus = [], [], set[str](), set[str]()
    for each in nodes:
        for backend in each.description["backends"]:
            if backend["name"] != target.backend:
                continue
            builds, runs = target.arch in backend["builds"], target.arch in backend["measures"]
            compiles += [each.name] if builds else []
            measures += [each.name] if runs else []
            versions |= {backend["version"]} if builds or runs else set()
            if target.arch != "cpu" and (runs or target.arch in backend.get("on_device", [])):
                skus |= skus_of(description_of(each), target.arch)
    return TargetAvailability(
        target=target,
        compiles=sorted(compiles),
        measures=sorted(measures),
        versions=sorted(versions),
        skus=sorted(skus),
        in_this_version=target.backend not in NOT_IN_THIS_VERSION,
    )
