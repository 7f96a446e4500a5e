"""What is said of an upload that was verified and became no model."""

from __future__ import annotations

from typing import Any

from enginefarm.errors import Failure, InvalidModel, Unavailable
from enginefarm.state import Blame
from tasks.farm import Farm

MOST_ATTEMPTS = 5
"""How often an upload is begun to be verified."""
UNREAD = "reader_unavailable"
"""The code of a process that would read an upload and cannot be started."""


def is_bucket_away(farm: Farm) -> bool:
    """Tell whether the bucket takes and gives nothing at all, or only refuses one upload."""
    try:
        farm.objects.probe()
    except Unavailable:
        return True
    return False


def mismatch(file: dict[str, Any], actual: str) -> InvalidModel:
    """Say that a file is not the one that was declared."""
    return InvalidModel(
        f"The file {file['name']!r} does not have the digest that was declared.",
        code="digest_mismatch",
        why=f"It arrived as {actual}.",
        fix="Send it again; if this repeats, the file changed while it was sent.",
        expected=file["digest"],
        actual=actual,
    )


def unexpected(error: Exception) -> Failure:
    """Say that verifying met a mistake of the farm's each time."""
    return Failure(
        code="internal",
        blame=Blame.FARM,
        message="The farm made a mistake with this upload.",
        why=f"An unexpected {type(error).__name__}, {MOST_ATTEMPTS} times; see the farm's log.",
        fix="Tell the operator the upload's id; nothing of it has become a model.",
    )


def used_up() -> Failure:
    """Say that verifying was begun as often as it may be, and nobody came to its end."""
    return Failure(
        code="internal",
        blame=Blame.FARM,
        message="The farm could not verify this upload.",
        why=f"It was begun {MOST_ATTEMPTS} times and never came to an end; see the farm's log.",
        fix="Tell the operator the upload's id; nothing of it has become a model.",
    )


def unread(seconds: float, error: Unavailable) -> Failure:
    """Say that no process that would read an upload could be started for too long."""
    return Failure(
        code=UNREAD,
        blame=Blame.FARM,
        message="The farm could not read this upload.",
        why=f"The process that reads uploads could not be started for {seconds:g} s. {error.why}",
        fix="Nothing is wrong with the model: send it again when the operator has found the cause "
        "in the farm's log.",
    )
