"""What a build has timed: whether others may build upon it, and what its report says of it."""

from __future__ import annotations

from enginefarm.report import TimingsReport
from workers import timing
from workers.childjob import ChildJob
from workers.gpu.taken import Taken, disturbed
from workers.timing import ChildTiming


def alone(job: ChildJob, left: ChildTiming | None, device: Taken | None) -> ChildTiming | None:
    """Keep back what was timed while somebody else may have been on the GPU.

    A kernel that was slow for that reason would be so for every build that follows.
    """
    if left is None or device is None or job.device is None:
        return left
    return left.model_copy(update={"kept_back": disturbed(device, shared=job.device.shared)})


def told(job: ChildJob, left: ChildTiming | None) -> TimingsReport | None:
    """Return what a report says of the timings of its build, where there are any."""
    if left is None:
        return None
    return TimingsReport(
        begun_with=job.one(timing.ROLE) is not None and left.refused is None,
        hits=left.hits,
        refused=left.refused,
        kept_back=left.kept_back,
    )
