"""Where a node puts what a job made: presigned URLs that take exactly the announced bytes, once.

Each leads to a place of the attempt's own; see :mod:`tasks.sent`.
"""

from __future__ import annotations

from storage import attempts, blobs, garbage, jobs
from storage.staging import staged_at
from tasks import lease
from tasks.farm import Farm
from tasks.fault_points import reach
from tasks.messages import OutputFile, UploadSlot, UploadsReply, UploadsRequest


def slots(farm: Farm, node_id: str, job_id: str, message: UploadsRequest) -> UploadsReply:
    """Return a slot for each file; none for bytes that this tenant has here already.

    The bucket is asked, too: a blob that was lost there must be sent again.

    Raises:
        LeaseLost: the attempt is no longer this node's.
    """
    asked = {file.digest for file in message.files}
    with farm.database.transaction() as session:
        job = lease.require(
            jobs.lock(session, job_id), node_id, message.attempt, message.lease_token
        )
        held = {digest for digest in asked if blobs.find(session, job.tenant_id, digest)}
        garbage.keep(session, asked)
        attempts.give_places(session, job, asked, held)
    lost = {
        file.digest for file in message.files if file.digest in held and not _is_there(farm, file)
    }
    if lost:
        with farm.database.transaction() as session:
            attempts.must_send(session, job, lost)
    made = [_slot(farm, message.attempt, job_id, file, held - lost) for file in message.files]
    reach("uploads.given")
    return UploadsReply(files=made)


def _slot(farm: Farm, attempt: int, job_id: str, file: OutputFile, held: set[str]) -> UploadSlot:
    if file.digest in held:
        return UploadSlot(digest=file.digest, url=None)
    url, headers = farm.objects.staging.presign(
        staged_at(job_id, attempt, file.digest),
        file.digest,
        file.size,
        file.media_type,
        seconds=farm.policy.transfer_s,
    )
    return UploadSlot(digest=file.digest, url=url, headers=headers)


def _is_there(farm: Farm, file: OutputFile) -> bool:
    info = farm.objects.head(file.digest)
    return info is not None and info.size == file.size
