"""Measure an engine: latency, accuracy against the original in ONNX Runtime, speed beside a twin.

Nothing is made up: what could not be measured is None, with the reason beside it. When the engine
fails on an input, the original model is asked too: if it fails as well, the input is at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from enginefarm.errors import JobFailed
from enginefarm.profile import measured_at
from enginefarm.report import AccuracyReport, LatencyReport
from enginefarm.spec import Profile
from enginefarm.state import Blame
from workers.backends.base import Backend, ProgressSink
from workers.gpu.taken import Taken
from workers.measurement.beside import against_twin
from workers.measurement.comparison import compare
from workers.measurement.conditions import Conditions
from workers.measurement.first_start import FirstStart
from workers.measurement.one_shape import Loaded, latency_at, places
from workers.measurement.request import Request as Request  # noqa: PLC0414 - it is how one is asked
from workers.measurement.timing import Stopped
from workers.reporting import PartSink

LATENCY_SHARE = 0.7
Keep = Callable[[dict[str, Any]], None]
"""Keeps what has been found so far, in case the process does not live to say it."""


def run(
    request: Request,
    backend: Backend,
    sink: ProgressSink,
    peak: Callable[[], int],
    device: Taken | None = None,
    keep: Keep = lambda _facts: None,
) -> dict[str, Any]:
    """Return the facts of a benchmark: latency by profile, accuracy, or why there is none.

    ``device`` is the GPU that this process has taken for it, if the target has one. ``keep`` gets
    what was found of the engine before its twin is loaded.
    """
    asked = measured_at(request.source.profiles, request.options.shapes)
    profiles: list[Profile | None] = list(asked) or [None]
    start = FirstStart(request, profiles[0])
    engine, load_ms = start.opened(backend)
    latency = []
    loaded = Loaded(engine, load_ms, peak, Conditions(device))
    shapes = list(places(profiles, request.options.batches))
    alone = LATENCY_SHARE if request.twin is None else LATENCY_SHARE / 2
    share = alone / len(shapes)
    try:
        for number, place in enumerate(shapes):
            part = PartSink(sink, number * share, share)
            latency.append(latency_at(place, request, loaded, part))
        rest = PartSink(sink, alone, 0.0)
        facts = _facts(latency, *compare(request, engine, profiles, rest))
        if request.twin is not None:
            keep(facts)
        part = PartSink(sink, 1 - alone, alone)
        beside = against_twin(request, loaded, backend, profiles, part)
        return facts | beside | start.with_cache(engine, backend, device)
    except Stopped:
        raise JobFailed("The benchmark was stopped.", blame=Blame.NODE, code="cancelled") from None


def _facts(
    latency: Sequence[LatencyReport], accuracy: AccuracyReport | None, reason: str | None
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "latency": [report.model_dump(mode="json") for report in latency],
        "accuracy": accuracy.model_dump(mode="json") if accuracy else None,
    }
    return facts if reason is None else facts | {"accuracy_reason": reason}
