"""What is said of a blob that is not there, or is not what it should be."""

from __future__ import annotations

from enginefarm.errors import Conflict, InvalidRequest, JobFailed
from enginefarm.state import Blame


def outside(digest: str, span: str) -> InvalidRequest:
    """Say that a range lies outside of a blob."""
    return InvalidRequest(
        f"The range {span} lies outside of blob {digest}.",
        code="range_not_satisfiable",
        fix="Ask for the size first.",
    )


def missing(digest: str) -> JobFailed:
    """Say that a blob is not there."""
    return unfit("blob_missing", f"Blob {digest} is not in the bucket.", digest)


def unfit(code: str, message: str, digest: str) -> JobFailed:
    """Say that a blob is not what its maker announced: the fault of the node that stored it."""
    return JobFailed(
        message,
        blame=Blame.NODE,
        code=code,
        fix="The attempt is made again on another node.",
        digest=digest,
    )


def size(digest: str, found: int, announced: int) -> JobFailed:
    """Say that a blob is longer or shorter than announced."""
    message = f"Blob {digest} has {found} bytes instead of {announced}."
    return unfit("blob_size", message, digest)


def corrupt(digest: str) -> JobFailed:
    """Say that bytes are not those of their digest."""
    return unfit("blob_corrupt", f"The bytes under {digest} do not have that digest.", digest)


def lost(place: str) -> Conflict:
    """Say that what was sent in parts is no longer in the bucket."""
    return Conflict(
        "What was sent of this upload is no longer there.",
        code="upload_lost",
        why=f"The bucket has nothing, or something else, at {place}.",
        fix="Begin a new upload: POST /v1/uploads; the command line does so by itself.",
    )


def part(place: str, word: str) -> Conflict:
    """Say that a part in the bucket is not the one that was announced."""
    return Conflict(
        "A part of this upload is not the one that was announced.",
        code="part_corrupt",
        why=f"The bucket does not join the parts at {place}: {word}.",
        fix="Declare the model again and send it anew.",
    )
