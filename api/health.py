"""Whether this process lives, and whether what it stands on answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Literal

import anyio
import structlog
from anyio import to_thread
from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel

from api.auth import farm_of
from tasks.farm import Farm

router = APIRouter(tags=["operation"])
PATIENCE_S = 5.0
_SPARED = frozenset({"valkey"})
"""Without it the API serves all but live progress; the loops announce jobs when it is back."""
log = structlog.get_logger(__name__)


class Alive(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Check(BaseModel):
    """One thing the farm stands on."""

    ok: bool
    seconds: float
    error: str | None = None


class Readiness(BaseModel):
    """Everything the farm stands on.

    Without a part of ``degraded`` the farm serves, and takes builds in; something is poorer.
    """

    ready: bool
    degraded: list[str] = []
    checks: dict[str, Check]


@router.get("/healthz", summary="Is the process alive?")
async def alive() -> Alive:
    """Answer, whatever the rest of the farm does."""
    return Alive()


@router.get(
    "/readyz",
    summary="Can the process serve?",
    responses={503: {"model": Readiness, "description": "Something it stands on is away."}},
)
async def ready(response: Response, farm: Annotated[Farm, Depends(farm_of)]) -> Readiness:
    """Ask the database, the bucket and Valkey, at the same time and each within five seconds.

    Without the database or the bucket nothing can be served. Without Valkey the farm is degraded.
    """
    probes: dict[str, Callable[[], object]] = {
        "database": farm.database.ping,
        "bucket": farm.objects.ping,
        "valkey": farm.progress.ping,
    }
    checks: dict[str, Check] = {}

    async def ask(name: str) -> None:
        checks[name] = await _check(name, probes[name])

    async with anyio.create_task_group() as group:
        for name in probes:
            group.start_soon(ask, name)
    away = {name for name, check in checks.items() if not check.ok}
    result = Readiness(
        ready=away <= _SPARED,
        degraded=sorted(away & _SPARED),
        checks={name: checks[name] for name in probes},
    )
    response.status_code = 200 if result.ready else 503
    response.headers["Cache-Control"] = "no-store"
    return result


async def _check(name: str, probe: Callable[[], object]) -> Check:
    began = time.perf_counter()
    error: str | None = None
    try:
        with anyio.fail_after(PATIENCE_S):
            await to_thread.run_sync(probe, abandon_on_cancel=True)
    except TimeoutError:
        error = "no answer in time"
    except Exception as failure:  # noqa: BLE001 - whatever it is, the thing cannot be used
        # The text may name hosts or users, so it goes to the log and only its kind to the caller.
        log.warning("not_ready", check=name, error=str(failure))
        error = getattr(failure, "code", type(failure).__name__)
    return Check(ok=error is None, seconds=round(time.perf_counter() - began, 4), error=error)
