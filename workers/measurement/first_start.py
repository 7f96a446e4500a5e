"""How long an engine takes from its file to its first answer, and what a runtime cache saves of it.

Only for a runtime that compiles kernels when an engine is first run. Its cache is written at the
end, when all shapes were run, and the engine is then started once more, with it.
"""

from __future__ import annotations

import time
from typing import Any

from enginefarm.runtime_cache import MadeFor, RuntimeCacheReport
from enginefarm.spec import Profile
from workers.backends.base import Backend, LeavesRuntimeCache, Runner
from workers.gpu.taken import Taken
from workers.measurement.one_shape import first_feeds
from workers.measurement.request import Request

MS = 1000.0


class FirstStart:
    """The first start of one engine, at the first profile's usual shape."""

    def __init__(self, request: Request, profile: Profile | None) -> None:
        """Remember what to start, and with what."""
        self._request, self._profile = request, profile
        self._took_ms: float | None = None

    def opened(self, backend: Backend) -> tuple[Runner, float]:
        """Open the engine; return it, and how long that took in ms."""
        asked = self._request
        began = time.perf_counter()
        source, threads = asked.source, asked.options.threads
        engine = backend.load(asked.engine, source.target, threads, source.options)
        load_ms = (time.perf_counter() - began) * MS
        if asked.cache is not None and isinstance(engine, LeavesRuntimeCache):
            # Made up before the clock goes on: what a program has at hand is no part of its start.
            feeds = first_feeds(asked, engine, self._profile)
            began = time.perf_counter()
            engine.run(feeds)
            self._took_ms = load_ms + (time.perf_counter() - began) * MS
        return engine, load_ms

    def with_cache(self, engine: Runner, backend: Backend, device: Taken | None) -> dict[str, Any]:
        """Write what the runtime has compiled, and start once more with it; return what is told."""
        path = self._request.cache
        if self._took_ms is None or path is None or device is None:
            return {}
        if not isinstance(engine, LeavesRuntimeCache):
            return {}
        data = engine.runtime_cache()
        if not data:
            return {}
        path.write_bytes(data)
        began = time.perf_counter()
        again = engine.started_again(data)
        took_ms: float | None = (time.perf_counter() - began) * MS
        if again is None or took_ms is None:
            took_ms = None
        else:
            feeds = first_feeds(self._request, again, self._profile)
            began = time.perf_counter()
            again.run(feeds)
            took_ms += (time.perf_counter() - began) * MS
        report = RuntimeCacheReport(
            made_for=MadeFor(
                version=backend.describe([]).version,
                gpu=device.gpu.name,
                driver=device.gpu.driver,
            ),
            size=len(data),
            first_start_ms=self._took_ms,
            with_cache_ms=took_ms,
        )
        return {"runtime_cache": report.model_dump(mode="json")}
