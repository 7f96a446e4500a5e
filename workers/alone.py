"""What was measured of an engine before its twin came, in case the twin ends the process.

An engine and its twin run in one process, and a runtime may crash on the twin, or not have the
memory or the time for both. What was found of the engine alone is on disk by then: the benchmark
has succeeded, and says why nothing is known beside the twin.
"""

from __future__ import annotations

from pathlib import Path

from enginefarm.errors import Failure
from tasks.messages import SCRATCH_FULL
from workers.childjob import ChildResult

ALONE_FILE = "alone.json"


def measured(scratch: Path, failure: Failure) -> ChildResult:
    """Return what is left of a job whose child has ended badly: a benchmark's first part, or none.

    ``failure`` says how the child ended. One that found no room for its result is tried again.
    """
    path = scratch / ALONE_FILE
    if failure.code == SCRATCH_FULL or not path.exists():
        return ChildResult(failure=failure)
    kept = ChildResult.model_validate_json(path.read_bytes())
    reason = (
        "the engine was measured alone, and the process ended when its twin was loaded or ran"
        f" beside it: {failure.message} [{failure.code}]"
    )
    return kept.model_copy(update={"facts": kept.facts | {"comparison_reason": reason}})
