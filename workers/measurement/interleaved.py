"""Two engines in turns at the shapes of a comparison: of each all runs, and the ratios of pairs.

How much single runs vary taints nothing here: it widens the interval that is reckoned from the
pairs. What else would taint a latency does, and then both are measured again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from enginefarm.comparison_report import ComparedRuns, SideRuns
from enginefarm.errors import JobFailed
from enginefarm.spec import Profile
from enginefarm.state import Blame
from workers.backends.base import ProgressSink, Runner
from workers.diagnosis import refuse_node_fault, runtime_of, shorten
from workers.measurement import inputs
from workers.measurement.conditions import Conditions, ReadEnergy, Worked
from workers.measurement.latency import kept_runs, summarize
from workers.measurement.one_shape import first_feeds
from workers.measurement.request import Request
from workers.measurement.side_by_side import Turns, take_turns
from workers.measurement.trusting import Spent

SIDES = ("first", "second")


@dataclass(frozen=True)
class Both:
    """Two engines in memory, and the machine they are measured on."""

    first: Runner
    second: Runner
    conditions: Conditions


def compared_at(
    request: Request, both: Both, profile: Profile | None, sink: ProgressSink
) -> ComparedRuns:
    """Measure both at the opt of a profile, with the same inputs.

    Raises:
        JobFailed: one of them does not run on these (code ``engine_run_failed``).
        Stopped: the sink says so.
    """
    feeds = first_feeds(request, both.first, profile)
    runs = [_bound(engine, feeds) for engine in (both.first, both.second)]
    for side, once in zip(SIDES, runs, strict=True):
        _require_runs(request, side, once)

    def work(energy: ReadEnergy) -> Worked[Turns]:
        before = energy()
        turns = take_turns(runs[0], runs[1], request.options, time.perf_counter, sink)
        after, count = energy(), len(turns.first) + len(turns.second)
        used = None if before is None or after is None else after - before
        return Worked(turns, None, Spent(used, count))

    turns, trust = both.conditions.until_quiet(work)
    return ComparedRuns(
        shapes={name: list(array.shape) for name, array in feeds.items()},
        batch=inputs.shared_batch(feeds),
        first=_side(turns.first),
        second=_side(turns.second),
        ratios=turns.ratios,
        trust=trust,
    )


def _bound(engine: Runner, feeds: inputs.Feeds) -> Callable[[], object]:
    names = {view.name for view in engine.inputs}
    fed = {name: array for name, array in feeds.items() if name in names}
    return lambda: engine.run(fed)


def _require_runs(request: Request, side: str, once: Callable[[], object]) -> None:
    try:
        once()
    except Exception as error:
        said = str(error)
        target = request.source.target
        refuse_node_fault(said, runtime_of(target), target)
        raise JobFailed(
            f"The {side} engine of the comparison does not run.",
            blame=Blame.PERSON,
            code="engine_run_failed",
            why=f"On {request.data} it says: {shorten(said)}",
            fix="Look at the report of its artifact: on what was it measured?",
        ) from error


def _side(runs_ms: Sequence[float]) -> SideRuns:
    return SideRuns(end_to_end_ms=summarize(runs_ms), runs_ms=kept_runs(runs_ms))
