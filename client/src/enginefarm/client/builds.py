"""Builds: ask for one, plan, list, show, watch, hurry and cancel them, and read their logs."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from enginefarm.client.events import Watch
from enginefarm.client.transport import Transport
from enginefarm.errors import Unavailable
from enginefarm.plan_views import PlanView
from enginefarm.spec import BuildSpec
from enginefarm.state import BuildKind, BuildState
from enginefarm.views import (
    BuildPage,
    BuildView,
    EventView,
)

_CREATED = 201
_TRIES = 3
_PART = "X-Log-Part"


@dataclass(frozen=True)
class LogPart:
    """The log of an attempt: ``whole`` once it is over, before that the end of what has come."""

    text: str
    whole: bool


class Builds:
    """The builds of the key's tenant."""

    def __init__(self, transport: Transport) -> None:
        """Use a farm's connections."""
        self._transport = transport

    def submit(self, spec: BuildSpec, idempotency_key: str | None = None) -> tuple[BuildView, bool]:
        """Ask for a build; return it, and whether this key had asked for it before.

        Without a key one is made up, so that a connection that breaks never builds twice.
        """
        key = idempotency_key or uuid.uuid4().hex
        for attempt in range(_TRIES):
            try:
                response = self._transport.request(
                    "POST",
                    "/v1/builds",
                    json=spec.model_dump(mode="json"),
                    headers={"Idempotency-Key": key},
                )
            except Unavailable as error:
                # An address where nobody listens is told at once; a hiccup is worth another try.
                if error.code == "farm_unreachable" or attempt == _TRIES - 1:
                    raise
                time.sleep(0.5 * (attempt + 1))
            else:
                build = self._transport.read(response, BuildView)
                return build, response.status_code != _CREATED
        raise AssertionError(attempt)

    def plan(self, spec: BuildSpec, *, explain: bool = False) -> PlanView:
        """Return what a build would do; with ``explain``, why each miss is one."""
        response = self._transport.request(
            "POST",
            "/v1/builds",
            again=True,
            json=spec.model_dump(mode="json"),
            params={"dry_run": 1, "explain": int(explain)},
        )
        return self._transport.read(response, PlanView)

    def get(self, build_id: str) -> BuildView:
        """Return a build in full."""
        return self._transport.get(f"/v1/builds/{quote(build_id, safe='')}", BuildView)

    def page(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
        states: Iterable[BuildState] = (),
        model: str | None = None,
        target: str | None = None,
        labels: Mapping[str, str] | None = None,
        kind: BuildKind | None = None,
    ) -> BuildPage:
        """Return a page of builds, newest first; ``kind`` leaves out checks, or all but checks."""
        params: dict[str, str | int | list[str]] = {"limit": limit}
        optional: dict[str, str | list[str] | None] = {
            "cursor": cursor,
            "state": [str(state) for state in states],
            "model": model,
            "target": target,
            "kind": None if kind is None else str(kind),
            "label": [f"{name}={value}" for name, value in (labels or {}).items()],
        }
        params |= {name: value for name, value in optional.items() if value}
        return self._transport.get("/v1/builds", BuildPage, params)

    def cancel(self, build_id: str) -> BuildView:
        """Cancel a build."""
        path = f"/v1/builds/{quote(build_id, safe='')}/cancel"
        return self._transport.read(self._transport.request("POST", path), BuildView)

    def bump(self, build_id: str) -> BuildView:
        """Put a build before all others of the tenant."""
        path = f"/v1/builds/{quote(build_id, safe='')}/bump"
        return self._transport.read(self._transport.request("POST", path), BuildView)

    def watch(self, build_id: str, *, after: str | None = None) -> Iterator[EventView]:
        """Yield what happens to a build until it is over, through broken connections."""
        return Watch(self._transport, quote(build_id, safe=""), after).events()

    def log(self, job_id: str, attempt: int) -> str:
        """Return the log of one attempt of a job."""
        return self.log_part(job_id, attempt).text

    def log_part(self, job_id: str, attempt: int) -> LogPart:
        """Return what there is of the log of one attempt, and whether it is all of it."""
        path = f"/v1/jobs/{quote(job_id, safe='')}/attempts/{attempt}/log"
        response = self._transport.request("GET", path, again=True)
        return LogPart(response.text, whole=response.headers.get(_PART, "whole") == "whole")
