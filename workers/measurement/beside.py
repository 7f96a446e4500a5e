"""An engine beside the twin that would be built without its precision, at the shapes of a build."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from enginefarm.errors import FarmError
from enginefarm.spec import Profile
from enginefarm.verdict_report import PairedRuns
from workers.backends.base import Backend, ProgressSink, Runner
from workers.diagnosis import shorten
from workers.measurement.one_shape import first_feeds
from workers.measurement.request import Request
from workers.measurement.side_by_side import side_by_side
from workers.measurement.timing import Stopped
from workers.reporting import PartSink


def against_twin(
    request: Request,
    engine: Runner,
    backend: Backend,
    profiles: list[Profile | None],
    sink: ProgressSink,
) -> dict[str, Any]:
    """Return how fast the engine is beside its twin, or why that is not known.

    What is wrong with the twin is not held against the engine.

    Raises:
        Stopped: the sink says so.
    """
    if request.twin is None:
        return {}
    rows, share = [], 1 / len(profiles)
    try:
        twin = backend.load(request.twin, request.source.target, request.options.threads)
        for number, profile in enumerate(profiles):
            part = PartSink(sink, number * share, share)
            rows.append(_beside(request, (twin, engine), profile, part))
    except Stopped:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a runtime raises
        told = error.message if isinstance(error, FarmError) else shorten(str(error), 300)
        return {"comparison_reason": f"it could not be measured beside its twin: {told}"}
    return {"comparison": [row.model_dump(mode="json") for row in rows]}


def _beside(
    request: Request, both: tuple[Runner, Runner], profile: Profile | None, sink: ProgressSink
) -> PairedRuns:
    twin, engine = both
    # An input that nothing reads may be there in one of them only.
    fed = [first_feeds(request, runner, profile) for runner in both]
    found = side_by_side(
        lambda: twin.run(fed[0]),
        lambda: engine.run(fed[1]),
        request.options,
        time.perf_counter,
        sink,
    )
    shapes = {name: list(array.shape) for name, array in fed[1].items()}
    return PairedRuns(shapes=shapes, **asdict(found))
