"""Where a node puts what a job made: presigned URLs that take exactly the announced bytes, once."""

from __future__ import annotations

from storage import attempts, blobs, garbage, jobs
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
    with farm.database.transaction() as session:
        job = lease.require(
            jobs.lock(session, job_id), node_id, message.attempt, message.lease_token
        )
        known = {
            file.digest
            for file in message.files
            if blobs.find(session, job.tenant_id, file.digest) is not None
        }
        garbage.keep(session, [file.digest for file in message.files])
        attempts.give_places(session, job, [file.digest for file in message.files])
    made = []
    for file in message.files:
        if file.digest in known and _is_there(farm, file):
            made.append(UploadSlot(digest=file.digest, url=None))
            continue
        url, headers = farm.objects.presign_put(
            file.digest, file.size, file.media_type, seconds=farm.policy.transfer_s
        )
        made.append(UploadSlot(digest=file.digest, url=url, headers=headers))
    reach("uploads.given")
    return UploadsReply(files=made)


def _is_there(farm: Farm, file: OutputFile) -> bool:
    info = farm.objects.head(file.digest)
    return info is not None and info.size == file.size
