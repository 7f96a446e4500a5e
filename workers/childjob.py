"""What crosses between the executor and the child: ``job.json`` in, ``result.json`` out."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from enginefarm.errors import Failure
from enginefarm.preflight.subject import Room
from enginefarm.state import Stage
from enginefarm.target import Target
from workers.gpu.need import DeviceNeed
from workers.timing import ChildTiming

JOB_FILE = "job.json"
RESULT_FILE = "result.json"


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ChildInput(_Document):
    """A file the job needs, already on disk and verified."""

    role: str
    name: str
    path: Path


class ChildOutput(_Document):
    """A file the job made."""

    role: str
    name: str
    path: Path
    media_type: str


class ChildJob(_Document):
    """One stage to run; ``merges``: only merge the two timing caches that are its inputs.

    ``timed``: the stage leaves the timings of its build. ``pythons``: those of tools that have an
    environment of their own. ``plugins``: libraries to load, by the backend that loads them.
    """

    stage: Stage
    target: Target
    recipe: dict[str, JsonValue]
    inputs: list[ChildInput]
    out: Path
    room: Room = Room()
    timed: bool = False
    merges: bool = False
    pythons: dict[str, Path] = {}
    plugins: dict[str, list[Path]] = {}
    device: DeviceNeed | None = None
    """The GPU to take; absent: the child sees what it sees, and takes none."""

    def one(self, role: str) -> ChildInput | None:
        """Return the input of that role, if there is one."""
        return next((item for item in self.inputs if item.role == role), None)


class ChildResult(_Document):
    """What came of it. ``facts`` may be there beside a ``failure``.

    ``peak_memory_bytes``: the most resident memory of the child itself, as the kernel counted it.
    """

    outputs: list[ChildOutput] = []
    facts: dict[str, JsonValue] = {}
    failure: Failure | None = None
    peak_memory_bytes: int = 0
    timing: ChildTiming | None = None
    device_uuid: str | None = None
    """The GPU that was taken for it."""


def write_document(path: Path, document: BaseModel) -> None:
    """Write whole or not at all: the reader may look after a crash."""
    part = path.with_suffix(".part")
    part.write_text(document.model_dump_json())
    part.replace(path)
