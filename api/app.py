"""Put the application together: one factory, no application at import.

The lifespan makes the database, bucket and stream clients once and closes what it made; a test
hands in a farm of its own instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import structlog
from anyio import to_thread
from fastapi import Depends, FastAPI
from starlette.types import Lifespan

from api import (
    artifacts,
    blobs,
    builds,
    comparisons,
    datasets,
    docs_page,
    events,
    health,
    jobs,
    metrics,
    model_uploads,
    models,
    nodes,
    openapi,
    searches,
    targets,
    timing_caches,
    trust,
    worker_api,
)
from api.closing import Closing
from api.errors import add_handlers
from api.limits import LimitBodies
from api.measures import Measures
from api.reading import Reading
from api.requests import ObserveRequests, bind_ids
from api.settings import ApiSettings
from api.validation import refuse_unknown_query
from enginefarm import __version__
from enginefarm.errors import FarmError
from storage import pulses
from storage.database import Database
from storage.objects import S3Objects
from storage.progress import ProgressStreams
from tasks.absence import BEAT_S, GAP_S
from tasks.farm import Farm

ROUTERS = (
    models.router,
    model_uploads.router,
    datasets.router,
    builds.router,
    searches.router,
    comparisons.router,
    events.router,
    jobs.router,
    targets.router,
    targets.plugins_router,
    nodes.router,
    timing_caches.router,
    artifacts.router,
    blobs.router,
    trust.router,
    health.router,
    metrics.router,
    worker_api.router,
    docs_page.router,
)
log = structlog.get_logger(__name__)


def create_app(settings: ApiSettings, farm: Farm | None = None) -> FastAPI:
    """Return the application; without ``farm`` it makes its own from the settings."""
    app = FastAPI(
        title="enginefarm",
        version=__version__,
        summary="A build farm for GPU inference engines.",
        description=_DESCRIPTION,
        lifespan=_lifespan(settings, farm),
        # The framework's own pages load from elsewhere; ours is in docs_page.
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(bind_ids), Depends(refuse_unknown_query)],
    )
    app.state.settings = settings
    app.state.measures = Measures()
    app.state.closing = Closing()
    for router in ROUTERS:
        app.include_router(router)
    add_handlers(app)
    openapi.describe(app)
    app.add_middleware(LimitBodies, limits=settings.body_limits())
    app.add_middleware(ObserveRequests, measures=app.state.measures)
    return app


def _lifespan(settings: ApiSettings, farm: Farm | None) -> Lifespan[FastAPI]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.farm = farm or make_farm(settings)
        app.state.reading = Reading(settings)
        log.info("api_started", version=__version__)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_keep_beating, app.state.farm)
                yield
                group.cancel_scope.cancel()
        finally:
            await app.state.farm.progress.aclose()
            if farm is None:
                app.state.farm.progress.close()
                app.state.farm.database.dispose()
            log.info("api_stopped")

    return lifespan


async def _keep_beating(farm: Farm) -> None:
    """Say that the API lives, so that the reconciler knows when nodes had nobody to report to."""

    def beat() -> None:
        with farm.database.transaction() as session:
            pulses.beat(session, "api", GAP_S)

    while True:
        try:
            await to_thread.run_sync(beat, abandon_on_cancel=True)
        except FarmError as error:
            log.warning("beat_missed", code=error.code)
        await anyio.sleep(BEAT_S)


def make_farm(settings: ApiSettings) -> Farm:
    """Connect to what the settings name. The API signs nothing, so its farm has no signer."""
    return Farm(
        database=Database(
            settings.database_url.get_secret_value(), pool_size=settings.database_connections
        ),
        objects=S3Objects.from_settings(settings),
        progress=ProgressStreams(settings.valkey_url.get_secret_value()),
        policy=settings.policy(),
        signer=None,
    )


_DESCRIPTION = """\
Send a model, name the targets, get an engine for each: built, measured against the original,
signed, and fetched by hash.

Every path under `/v1` but `/v1/trust` needs an access key: `Authorization: Bearer ef_…`. A key has
scopes: `submit`, `read`, `deploy`, or `admin` for all of them. Errors are problems (RFC 9457) with
a stable `code`, what happened, why, and what to do.
"""
