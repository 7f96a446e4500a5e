"""Named steps at which a test may let a process die at once, as a crash or a power cut would.

Nothing happens unless ``ENGINEFARM_FAULT_DIR`` names a folder in which there is a file of the
step's name: the first process to get there takes the file away and kills itself. So one file is
one death, whichever of several processes it hits and however often that one is started again. If
the file says ``stand``, the process stands still instead, until it is told to go on.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

POINTS: dict[str, str] = {
    "submit.written": "the rows of a build are written, not committed",
    "submit.committed": "a build is accepted, its sender has no answer yet",
    "dispatch.sent": "a ring is with the broker, that it was sent is not committed",
    "dispatch.committed": "rings are sent and committed",
    "claim.written": "a node gets a job, not committed",
    "claim.committed": "a job is a node's, the node does not know it yet",
    "beat.committed": "a lease is longer, the node does not know it yet",
    "uploads.given": "a node may upload, and does not know where yet",
    "finish.written": "an attempt has ended, not committed",
    "finish.committed": "an attempt has ended, the node does not know that it was heard",
    "cancel.written": "a build is cancelled, not committed",
    "cancel.committed": "a build is cancelled, who asked does not know it yet",
    "sent.read": "what an attempt has sent is read and hashed, not kept yet",
    "settle.proved": "the blobs of a job are proved",
    "settle.written": "a job is settled, not committed",
    "settle.committed": "a job is settled, what its attempt has sent is in the bucket twice",
    "publish.taken": "a publisher has a job",
    "publish.stored": "report, config and manifest are in the bucket",
    "publish.signed": "the statement is signed, and nowhere yet",
    "publish.written": "artifact and attestation are written, not committed",
    "publish.committed": "an artifact is out",
    "reconcile.written": "a repair is written, not committed",
    "search.written": "a step of a search is written, and its candidates, not committed",
    "upload.declared": "an upload in parts is declared, its sender does not know it yet",
    "upload.begun": "the bucket takes a file's parts, that it does is not committed",
    "upload.stored": "a part that came through the farm is kept, its sender does not know it yet",
    "upload.completed": "an upload waits to be verified, its sender does not know it yet",
    "upload.cancelled": "an upload is given up, its sender does not know it yet",
    "verify.claimed": "a verifier has an upload",
    "verify.joined": "the parts of a file are one object, which nobody has read yet",
    "verify.copied": "the files lie where blobs do, and no row names them",
    "verify.written": "a model is written, not committed",
    "verify.committed": "an upload has become a model, and its parts are in the bucket still",
    "verify.cleared": "the parts of an upload are removed, that they are is not committed",
    "node.heard": "a node has heard a ring",
    "node.claimed": "a node has a job",
    "node.fetched": "a node has a job's inputs",
    "node.child_ended": "the child of a job has ended",
    "node.stored": "what a job made is in the bucket, the farm does not know it",
    "node.finished": "the farm has heard the end of an attempt",
    "child.began": "the child of a job has begun",
    "child.made": "the child has made what it should, and not said so",
}
STAND = "stand"
_FOLDER = os.environ.get("ENGINEFARM_FAULT_DIR")


def reach(name: str) -> None:
    """Die or stand still here if a test wants it; ``name`` is one of ``POINTS``."""
    if _FOLDER is None:
        return
    armed = Path(_FOLDER) / name
    try:
        said = armed.read_text("ascii")
        armed.unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGSTOP if said == STAND else signal.SIGKILL)
