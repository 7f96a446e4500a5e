"""Fetch the inputs of an attempt, each to the place where its stage looks for it."""

from __future__ import annotations

from pathlib import Path

from tasks.messages import Assignment
from workers import transfer
from workers.childjob import ChildInput


def fetch(job: Assignment, folder: Path, stop: transfer.Stop) -> list[ChildInput]:
    """Fetch every input into a new folder.

    Raises:
        JobFailed: an input does not come, or not as it should be.
        TransferStopped: ``stop`` gave a reason.
    """
    folder.mkdir()
    found = []
    with transfer.make_client(stop) as client:
        for item in job.inputs:
            path = transfer.download(client, item, _place(folder, item.role), stop)
            found.append(ChildInput(role=item.role, name=item.name, path=path))
    return found


def _place(folder: Path, role: str) -> Path:
    """External data lies beside its model; other files apart, since names may be the same."""
    place = folder / ("model" if role in {"model", "external-data"} else role)
    place.mkdir(exist_ok=True)
    return place
