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
from workers.measurement.conditions import Worked
from workers.measurement.one_shape import Loaded, first_feeds
from workers.measurement.request import Request
from workers.measurement.side_by_side import SideBySide, side_by_side
from workers.measurement.timing import Stopped
from workers.measurement.trusting import Spent
from workers.reporting import PartSink


def against_twin(
    request: Request,
    loaded: Loaded,
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
        source = request.source
        twin = backend.load(request.twin, source.target, request.options.threads, source.options)
        for number, profile in enumerate(profiles):
            part = PartSink(sink, number * share, share)
            rows.append(_beside(request, (twin, loaded), profile, part))
    except Stopped:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a runtime raises
        told = error.message if isinstance(error, FarmError) else shorten(str(error), 300)
        return {"comparison_reason": f"it could not be measured beside its twin: {told}"}
    return {"comparison": [row.model_dump(mode="json") for row in rows]}


def _beside(
    request: Request, both: tuple[Runner, Loaded], profile: Profile | None, sink: ProgressSink
) -> PairedRuns:
    """Measure at one shape, again while it cannot be relied on, as a latency is."""
    twin, engine, conditions = both[0], both[1].engine, both[1].conditions
    # An input that nothing reads may be there in one of them only.
    fed = [first_feeds(request, runner, profile) for runner in (twin, engine)]

    def in_turns() -> SideBySide:
        return side_by_side(
            lambda: twin.run(fed[0]),
            lambda: engine.run(fed[1]),
            request.options,
            time.perf_counter,
            sink,
        )

    found, trust = conditions.until_quiet(lambda _energy: Worked(in_turns(), None, Spent(None, 0)))
    shapes = {name: list(array.shape) for name, array in fed[1].items()}
    return PairedRuns(shapes=shapes, trust=trust, **asdict(found))
