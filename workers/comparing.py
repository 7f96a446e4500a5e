"""Run a comparison: two engines, which are code, in this one child process, in turns."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from enginefarm.compile_options import CompileOptions
from enginefarm.errors import JobFailed
from enginefarm.spec import BenchmarkOptions, Profile
from enginefarm.state import Blame
from workers.backends.base import Backend, ModelSource, ProgressSink
from workers.childjob import ChildInput, ChildJob
from workers.gpu.taken import Taken
from workers.measurement.conditions import Conditions
from workers.measurement.interleaved import Both, compared_at
from workers.measurement.request import Request
from workers.measurement.timing import Stopped
from workers.reporting import PartSink

COMPARED: TypeAdapter[dict[str, dict[str, Any]]] = TypeAdapter(dict[str, dict[str, Any]])
PROFILES: TypeAdapter[list[Profile]] = TypeAdapter(list[Profile])


def compare_engines(
    job: ChildJob, backend: Backend, sink: ProgressSink, device: Taken | None
) -> dict[str, Any]:
    """Return what was measured at each profile of the first engine.

    Raises:
        JobFailed: one of them does not load or run, or the work was stopped.
    """
    first, second = (_input(job, side) for side in ("first", "second"))
    dataset, target = job.one("dataset"), job.target
    profiles = PROFILES.validate_python(job.recipe.get("profiles") or [])
    source = ModelSource(path=first.path, target=target, profiles=profiles)
    request = Request.of(job.recipe, source, first.path, dataset.path if dataset else None)
    options: BenchmarkOptions = request.options
    built = [_built(job, side) for side in ("first", "second")]
    both = Both(
        backend.load(first.path, target, options.threads, built[0]),
        backend.load(second.path, target, options.threads, built[1]),
        Conditions(device),
    )
    shapes: list[Profile | None] = list(profiles) or [None]
    rows, share = [], 1 / len(shapes)
    try:
        for number, profile in enumerate(shapes):
            part = PartSink(sink, number * share, share)
            rows.append(compared_at(request, both, profile, part))
    except Stopped:
        raise JobFailed("The comparison was stopped.", blame=Blame.NODE, code="cancelled") from None
    return {
        "compared": [row.model_dump(mode="json") for row in rows],
        "data": request.data,
        "threads": both.first.threads,
    }


def _built(job: ChildJob, side: str) -> CompileOptions:
    told = COMPARED.validate_python(job.recipe["compare"])
    return CompileOptions.model_validate(told.get(side, {}).get("built_with") or {})


def _input(job: ChildJob, side: str) -> ChildInput:
    found = job.one(side)
    if found is None:
        raise JobFailed(
            f"The job came without the {side} engine.", blame=Blame.FARM, code="input_missing"
        )
    return found
