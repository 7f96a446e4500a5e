"""The farm's numbers for Prometheus, in a registry of this application's own.

Requests are counted as they end; what stands in the database is counted when somebody asks.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Measures:
    """Every metric of the API process."""

    def __init__(self) -> None:
        """Register them all, at nought."""
        self._registry = CollectorRegistry(auto_describe=True)
        self._requests = Counter(
            "enginefarm_http_requests",
            "Requests by method, route template and status.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "enginefarm_http_request_seconds",
            "Seconds until the answer began, by method and route template.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._builds = self._gauge("enginefarm_builds", "Builds by state.", "state")
        self._jobs = self._gauge(
            "enginefarm_jobs", "Jobs that are not finished, by state and queue.", "state", "queue"
        )
        self._nodes = self._gauge("enginefarm_nodes", "Nodes by state.", "state")
        self._outbox = self._gauge("enginefarm_outbox_unsent", "Rings written but not yet sent.")
        self._unreadable = self._gauge(
            "enginefarm_retention_unreadable",
            "Rows that a rule of retention could not read in its last round; they stay.",
            "rule",
        )

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def stock(
        self,
        *,
        builds: Mapping[str, int],
        jobs: Mapping[tuple[str, str], int],
        nodes: Mapping[str, int],
        outbox: int,
        unreadable: Mapping[str, int],
    ) -> None:
        """Take over what the database holds now."""
        for gauge, counts in ((self._builds, builds), (self._nodes, nodes)):
            gauge.clear()
            for state, count in counts.items():
                gauge.labels(state).set(count)
        self._jobs.clear()
        for (state, queue), count in jobs.items():
            self._jobs.labels(state, queue).set(count)
        self._outbox.set(outbox)
        self._unreadable.clear()
        for rule, count in unreadable.items():
            self._unreadable.labels(rule).set(count)

    def render(self) -> bytes:
        """Return the text that Prometheus reads."""
        return generate_latest(self._registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry)
