"""Store the files of an attempt where the farm says, describe them, and tell the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from enginefarm.errors import JobFailed, Unavailable
from enginefarm.state import Blame
from tasks.messages import (
    BUCKET_AWAY,
    Assignment,
    FinishReply,
    FinishRequest,
    OutputFile,
    UploadSlot,
    UploadsRequest,
)
from workers import transfer
from workers.childjob import ChildOutput
from workers.farm_api import WorkerApi


def store(
    api: WorkerApi,
    job: Assignment,
    files: Sequence[ChildOutput],
    stop: transfer.Stop,
    patience: Callable[[], float],
) -> list[OutputFile]:
    """Store files; addresses that are no longer good are asked for once more.

    Raises:
        JobFailed: the bucket does not take them (``output_refused``) or is away (``bucket_away``).
        LeaseLost: the farm gives this attempt no place any more.
        TransferStopped: ``stop`` gave a reason.
    """
    described = [transfer.describe(item) for item in files]
    request = UploadsRequest(attempt=job.attempt, lease_token=job.lease_token, files=described)
    for last in (False, True):
        slots = _places(api, job, request, patience())
        try:
            with transfer.make_client(stop) as client:
                for slot, item in zip(slots, files, strict=True):
                    transfer.upload(client, slot, item.path, stop)
        except transfer.SlotExpired:
            if last:
                raise JobFailed(
                    "The bucket refuses the farm's upload addresses.",
                    blame=Blame.FARM,
                    code="output_refused",
                    why="A fresh one was refused, too.",
                    fix="Compare the clocks and the bucket's credentials.",
                ) from None
        else:
            return described
    return described


def _places(
    api: WorkerApi, job: Assignment, request: UploadsRequest, patience_s: float
) -> list[UploadSlot]:
    try:
        return api.uploads(job.job_id, request, patience_s=patience_s).files
    except Unavailable as error:
        if error.code != BUCKET_AWAY:
            raise
        raise JobFailed(
            "What the job made could not be stored.",
            blame=Blame.FARM,
            code=BUCKET_AWAY,
            why="The farm cannot reach its bucket.",
            fix="Look at the bucket and at the path between it and the farm.",
        ) from error


def tell_end(
    api: WorkerApi, job_id: str, message: FinishRequest, patience: Callable[[], float]
) -> FinishReply:
    """Tell how an attempt ended, without its log if the farm cannot look at the bucket."""
    try:
        return api.finish(job_id, message, patience_s=patience())
    except Unavailable as error:
        if error.code != BUCKET_AWAY:
            raise
    return api.finish(job_id, message.model_copy(update={"log": None}), patience_s=patience())
