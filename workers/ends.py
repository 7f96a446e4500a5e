"""What is said of an attempt that ends for a reason outside of its model and runtime. Pure."""

from __future__ import annotations

import errno
import os

from enginefarm.errors import Failure
from enginefarm.state import Blame
from tasks.messages import SCRATCH_FULL
from workers.diagnosis import shorten

NO_ROOM_STATUS = os.EX_IOERR
"""With it a child leaves that had no room even for its result."""
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def failure_of(error: Exception) -> Failure:
    """Return the failure for an error that is none of the farm's own."""
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return no_room(f"{os.strerror(error.errno)}.")
    return Failure(
        code="stage_error",
        blame=Blame.NODE,
        message=f"The job stopped on an unexpected {type(error).__name__}.",
        why=shorten(str(error)),
        fix="Read the job's log; this is a defect of the farm or of the runtime.",
    )


def no_room(why: str) -> Failure:
    """Return the failure of a node that cannot keep a job's files."""
    return Failure(
        code=SCRATCH_FULL,
        blame=Blame.NODE,
        message="The node has no room for the job's files.",
        why=why,
        fix="Free the disk of ENGINEFARM_NODE_STATE_DIR; the job is then made by itself.",
    )


def handed_back() -> Failure:
    """Return what a node says that gives a job back because it is told to leave."""
    return Failure(
        code="handed_back",
        blame=Blame.NODE,
        message="The node is shutting down and hands the job back.",
    )
