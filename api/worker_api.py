"""What nodes say: enrol, live, claim, beat, upload, finish. No person's key opens these paths.

Every step is decided in ``tasks``; here a message comes in and its answer goes out.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from api.auth import FarmOf, may_enrol, node_of
from api.openapi import problems
from api.parameters import JobId
from tasks import claim, enrol, finish, heartbeat, timing_caches, uploads
from tasks.messages import (
    ClaimReply,
    ClaimRequest,
    EnrolReply,
    EnrolRequest,
    FinishReply,
    FinishRequest,
    LeaseBeat,
    LeaseBeatReply,
    NodeBeat,
    NodeBeatReply,
    TimingMerge,
    TimingRefusal,
    TimingReply,
    UploadsReply,
    UploadsRequest,
)

router = APIRouter(prefix="/worker/v1", tags=["worker"])
NodeId = Annotated[str, Depends(node_of)]
_FAILS = problems(400, 401, 413, 503)
_LEASED = problems(400, 401, 404, 409, 413, 503)


@router.post(
    "/enrol",
    summary="Join the farm",
    dependencies=[Depends(may_enrol)],
    responses=_FAILS | problems(409),
)
def join(message: EnrolRequest, farm: FarmOf) -> EnrolReply:
    """Take a node in and give it its own credential, shown once."""
    return enrol.enrol(farm, message)


@router.post("/beat", summary="Say that the node lives", responses=_FAILS)
def live(message: NodeBeat, farm: FarmOf, node_id: NodeId) -> NodeBeatReply:
    """Note that a node lives, and tell it what the farm wants of it."""
    return enrol.beat(farm, node_id, message)


@router.post("/claims", summary="Claim a job", responses=_FAILS)
def take(message: ClaimRequest, farm: FarmOf, node_id: NodeId) -> ClaimReply:
    """Give a job to the node that rings back first, with a lease."""
    return claim.claim(farm, node_id, message)


@router.post("/jobs/{job_id}/beat", summary="Keep a lease", responses=_LEASED)
def beat(job_id: JobId, message: LeaseBeat, farm: FarmOf, node_id: NodeId) -> LeaseBeatReply:
    """Prolong a lease, and pass on progress and the tail of the log."""
    return heartbeat.beat(farm, node_id, job_id, message)


@router.post("/jobs/{job_id}/uploads", summary="Ask where files go", responses=_LEASED)
def slots(job_id: JobId, message: UploadsRequest, farm: FarmOf, node_id: NodeId) -> UploadsReply:
    """Give out a pinned, presigned PUT for each file that the farm does not have."""
    return uploads.slots(farm, node_id, job_id, message)


@router.post(
    "/jobs/{job_id}/timing-cache", summary="Offer a merged timing cache", responses=_LEASED
)
def merge_timings(
    job_id: JobId, message: TimingMerge, farm: FarmOf, node_id: NodeId
) -> TimingReply:
    """Take a cache if it holds the newest snapshot; else say what to merge it with."""
    return timing_caches.merge(farm, node_id, job_id, message)


@router.post(
    "/jobs/{job_id}/timing-cache/refusals",
    summary="Refuse a timing cache",
    responses=_LEASED,
)
def refuse_timings(
    job_id: JobId, message: TimingRefusal, farm: FarmOf, node_id: NodeId
) -> TimingReply:
    """Put away a snapshot that the runtime does not take."""
    return timing_caches.refuse(farm, node_id, job_id, message)


@router.post("/jobs/{job_id}/finish", summary="End an attempt", responses=_LEASED)
def end(job_id: JobId, message: FinishRequest, farm: FarmOf, node_id: NodeId) -> FinishReply:
    """Take the result of an attempt."""
    return finish.finish(farm, node_id, job_id, message)
