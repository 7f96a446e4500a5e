"""Try a model at the ends of its profile before it is built: a batch that was baked in shows here.

Only failures of shape count. Synthetic values may be wrong for a model (an index out of range), and
that is not the profile's fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from enginefarm.errors import JobFailed
from enginefarm.spec import Profile
from workers.backends.base import Finding, Runner, Severity
from workers.diagnosis import Runtime, diagnose, shorten
from workers.measurement import inputs

MOST_ELEMENTS = 4_000_000
"""Larger inputs are not tried: the check must stay quick. Which were left out is said."""


def trial_runs(runner: Runner, profiles: Sequence[Profile]) -> list[Finding]:
    """Run at min, opt and max of every profile, up to the first shape that does not fit."""
    found: list[Finding] = []
    for number, profile in enumerate(profiles):
        for which in ("min", "opt", "max"):
            place = f"profile {number}, {which}"
            fault = _trial(runner, profile, which, place)
            if fault is not None:
                found.append(fault)
                if fault.severity is Severity.ERROR:
                    return found
    return found


def _trial(runner: Runner, profile: Profile, which: str, place: str) -> Finding | None:
    try:
        shapes = [inputs.shape_at(view, profile, which) for view in runner.inputs]
        if sum(math.prod(shape) for shape in shapes) > MOST_ELEMENTS:
            return _not_tried(place)
        feeds = inputs.synthetic(runner.inputs, profile, {}, np.random.default_rng(0), which=which)
    except JobFailed:
        return None  # no values can be made for an input: nothing was tried, nothing is known
    return _run(lambda: runner.run(feeds), place)


def _run(once: Callable[[], object], place: str) -> Finding | None:
    try:
        once()
    except Exception as error:  # noqa: BLE001 - the binding raises a class for each status
        row = diagnose(str(error), Runtime.ONNXRUNTIME)
        if row is None or row.code != "shape_mismatch":
            return None
        return Finding(
            severity=Severity.ERROR,
            code="profile_not_runnable",
            message=f"The original model does not run at {place}: {shorten(str(error), 300)}",
            where=place,
            fix=row.fix,
        )
    return None


def _not_tried(place: str) -> Finding:
    return Finding(
        severity=Severity.NOTE,
        code="profile_not_tried",
        message=f"The model was not tried at {place}: more than {MOST_ELEMENTS:,} input elements.",
        where=place,
    )
